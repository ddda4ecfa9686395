// SPDX-License-Identifier: Apache-2.0
// Markdown that comes bit by bit: finished blocks (items of lists, rows of tables, too) are rendered once and stay; the last block is rendered again, at
// most once a frame, and less often the longer that takes. Open code grows by what is new.
import {blocksOf, nodesOf} from './markdown.js';
import {codeBlock} from './code_block.js';

const kShare = 0.25;  // of the time that rendering may take

const kBullet = /^ {0,3}(?:[-+*]|\d{1,9}[.)]?) *\n*$/;

const linesIn = (text) => {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) ++count;
  return count;
};

export class MarkdownStream {
  #text = '';
  #done = 0;        // characters that are rendered for good
  #live = [];       // nodes of the last block
  #list = null;     // that may go on: {element, isOrdered, sign}
  #table = null;    // that may go on: {body, head: its first two lines}
  #code = null;     // that is open: {block, closes, at}
  #frame = 0;
  #next = 0;        // no rendering before

  constructor(container) {
    this.container = container;
  }

  add(text) {
    this.#text += text.replace(/\r\n?/g, '\n');
    this.#schedule();
  }
  /// Renders what is left.
  finish() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#render(true);
  }

  #schedule() {
    this.#frame ||= requestAnimationFrame((now) => {
      this.#frame = 0;
      if (now < this.#next) return this.#schedule();
      this.#render(false);
      const took = performance.now() - now;
      this.#next = took > 4 ? now + took / kShare : 0;
    });
  }

  #render(isOver) {
    if (this.#code && this.#goOnWithCode(isOver)) return;
    for (const node of this.#live) node.remove();
    this.#live = [];
    if (this.#list?.element.childElementCount === 0) {
      this.#list.element.remove();
      this.#list = null;
    }
    // A fence is one once its line has ended. Further rows are a table's below its head alone.
    const blocks = blocksOf(`${this.#table?.head ?? ''}${this.#text.slice(this.#done)}\n`);
    let last = blocks.length - 1;
    while (last > 0 && blocks[last].type === 'space') --last;
    blocks.forEach((block, i) => {
      const isLive = !isOver && i >= last;
      if (block.type === 'table') return this.#renderTable(block, isLive);
      this.#table = null;
      if (block.type === 'list') return this.#renderList(block, isLive);
      // The beginning of a next item.
      if (isLive && this.#list && kBullet.test(block.raw)) return;
      if (block.type !== 'space') this.#list = null;
      this.#renderBlock(block, isLive);
    });
  }

  #renderBlock(block, isLive) {
    const end = isLive ? this.#done : this.#endOf(block.raw);
    const nodes = this.#nodesOf(block, isLive, this.#text.slice(this.#done, isLive ? undefined : end));
    if (isLive) this.#live.push(...nodes);
    this.container.append(...nodes);
    this.#done = end;
  }

  #nodesOf(block, isLive, source) {
    const fence = block.type === 'code' ? source.match(/^\n* {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*(?:\n|$)/) : null;
    if (!fence) return [...nodesOf([block]).childNodes];
    // Not the lexer's text, in which tabs have become blanks.
    const closes = new RegExp(`(?:^|\\n) {0,3}${fence[1][0]}{${fence[1].length},}[ \\t]*(?:\\n|$)`);
    const inner = source.slice(fence[0].length);
    const text = inner.slice(0, inner.match(closes)?.index ?? inner.length);
    const made = codeBlock(isLive ? text : text.replace(/\n+$/, ''), fence[2], isLive);
    if (isLive && fence[0].endsWith('\n') && !closes.test(inner)) this.#code = {block: made, closes, start: this.#done + fence[0].length, at: this.#text.length};
    return [made.element];
  }

  /// Whether open code is all that there is.
  #goOnWithCode(isOver) {
    const {block, closes, start, at} = this.#code;
    const from = Math.max(start, this.#text.lastIndexOf('\n', at - 1));
    if (closes.test(this.#text.slice(from))) {
      this.#code = null;
      return false;
    }
    if (isOver) block.finish(this.#text.slice(start));
    else block.add(this.#text.slice(at));
    this.#code.at = this.#text.length;
    return true;
  }

  #renderList(list, isLive) {
    const sign = list.raw.match(/^\s*(?:\d+)?([-*+.)])/)?.[1];
    if (!this.#list || this.#list.isOrdered !== list.ordered || this.#list.sign !== sign) {
      const element = document.createElement(list.ordered ? 'ol' : 'ul');
      if (list.ordered && list.start !== 1 && list.start !== '') element.start = list.start;
      this.container.append(element);
      this.#list = {element, isOrdered: list.ordered, sign};
    }
    const start = this.#done;
    let raw = '';
    list.items.forEach((item, i) => {
      // Each item by itself: a later blank line does not change those in front of it.
      const loose = /\n\s*\n\s*\S/.test(item.raw.trimEnd());
      const made = nodesOf([{...list, loose, items: [{...item, loose}]}]).firstElementChild;
      const nodes = [...made.children];
      this.#list.element.append(...nodes);
      if (isLive && i === list.items.length - 1) this.#live.push(...nodes);
      else raw += item.raw;
    });
    this.#done = isLive ? this.#endOf(raw, start) : this.#endOf(list.raw, start);
  }

  #renderTable(table, isLive) {
    this.#list = null;
    // The line below the head may still grow.
    if (isLive && !this.#table && table.rows.length === 0) return this.#renderBlock(table, isLive);
    const lines = table.raw.split('\n');
    const rowsAt = this.#table ? this.#done : this.#endOf(`${lines[0]}\n${lines[1]}\n`);
    const raw = this.#table ? lines.slice(2).join('\n') : table.raw;
    const made = nodesOf([table]).firstElementChild;
    if (!this.#table) {
      this.container.append(made);
      const element = made.querySelector('table');
      this.#table = {body: element.tBodies[0] ?? element.createTBody(), head: `${lines[0]}\n${lines[1]}\n`};
    } else this.#table.body.append(...made.querySelectorAll('tbody > tr'));
    if (!isLive) {
      this.#done = this.#endOf(raw);
      this.#table = null;
      return;
    }
    if (table.rows.length === 0) return;
    this.#live.push(this.#table.body.lastElementChild);
    this.#done = this.#endOf('\n'.repeat(table.rows.length - 1), rowsAt);
  }

  /// Where in the text a block ends. Lines are counted, as the lexer writes tabs as blanks.
  #endOf(raw, from = this.#done) {
    let at = from;
    for (let lines = linesIn(raw); lines > 0; --lines) {
      const end = this.#text.indexOf('\n', at);
      if (end < 0) return this.#text.length;
      at = end + 1;
    }
    if (raw === '' || raw.endsWith('\n')) return at;
    const end = this.#text.indexOf('\n', at);
    return end < 0 ? this.#text.length : end;
  }
}
