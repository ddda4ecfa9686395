// SPDX-License-Identifier: Apache-2.0
// Markdown that comes bit by bit: finished blocks (items of lists, too) are rendered once and stay; the last block is rendered again, at
// most once a frame, and less often the longer that takes. Open code grows by what is new.
import {blocksOf, nodesOf} from './markdown.js';
import {codeBlock} from './code_block.js';

const kShare = 0.25;  // of the time that rendering may take

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
    // A fence is one once its line has ended.
    const blocks = blocksOf(`${this.#text.slice(this.#done)}\n`);
    let last = blocks.length - 1;
    while (last > 0 && blocks[last].type === 'space') --last;
    blocks.forEach((block, i) => {
      const isLive = !isOver && i >= last;
      if (block.type === 'list') return this.#renderList(block, isLive, blocks.links);
      if (block.type !== 'space') this.#list = null;
      this.#renderBlock(block, isLive, blocks.links);
    });
  }

  #renderBlock(block, isLive, links) {
    const end = isLive ? this.#done : this.#endOf(block.raw);
    const nodes = this.#nodesOf(block, isLive, this.#text.slice(this.#done, isLive ? undefined : end), links);
    if (isLive) this.#live.push(...nodes);
    this.container.append(...nodes);
    this.#done = end;
  }

  #nodesOf(block, isLive, source, links) {
    const fence = block.type === 'code' ? source.match(/^\n* {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*(?:\n|$)/) : null;
    if (!fence) return [...nodesOf([block], links).childNodes];
    // Not the lexer's text, in which tabs have become blanks.
    const closes = new RegExp(`(?:^|\\n) {0,3}${fence[1][0]}{${fence[1].length},}[ \\t]*(?:\\n|$)`);
    const inner = source.slice(fence[0].length);
    const text = inner.slice(0, inner.match(closes)?.index ?? inner.length);
    const made = codeBlock(isLive ? text : text.replace(/\n+$/, ''), fence[2], isLive);
    if (isLive && !closes.test(inner)) this.#code = {block: made, closes, start: this.#done + fence[0].length, at: this.#text.length};
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

  #renderList(list, isLive, links) {
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
      const made = nodesOf([{...list, items: [item]}], links).firstElementChild;
      const nodes = [...made.children];
      this.#list.element.append(...nodes);
      if (isLive && i === list.items.length - 1) this.#live.push(...nodes);
      else raw += item.raw;
    });
    this.#done = isLive ? this.#endOf(raw, start) : this.#endOf(list.raw, start);
    if (this.#list.element.childElementCount === 0) this.#list = null;
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
