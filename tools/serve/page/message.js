// SPDX-License-Identifier: Apache-2.0
// One message: its text, its calls of tools, what can be done with it.
import {make, iconButton, button, copyText, field} from './dom.js';
import {previews} from './images.js';
import {AnswerText} from './answer_text.js';
import {TokenText} from './token_text.js';
import {codeBlock} from './code_block.js';
import {siblingsOf} from './tree.js';

const pretty = (json) => {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch { return json; }
};

function figuresOf(node) {
  const parts = [];
  if (node.tokens > 0) parts.push(`${node.tokens} tokens`);
  if (node.tokens > 1 && node.seconds > 0) parts.push(`${((node.tokens - 1) / node.seconds).toFixed(1)} tokens/s`);
  if (node.firstMs > 0) parts.push(`first after ${node.firstMs < 1000 ? `${node.firstMs.toFixed(0)} ms` : `${(node.firstMs / 1000).toFixed(1)} s`}`);
  if (node.finish && node.finish !== 'stop') parts.push(node.finish === 'length' ? 'cut off: most tokens, or no more room' : node.finish);
  return parts.join(' · ');
}

/// `acts`: {edit(node, text), again(node), choose(id), remove(node), results(node, texts)}.
export class Message {
  #node; #acts; #conversation; #isRunning;

  constructor(conversation, node, acts, isRunning) {
    this.#node = node;
    this.#acts = acts;
    this.#conversation = conversation;
    this.#isRunning = isRunning;
    const who = {user: 'You', tool: 'Tool result', assistant: node.model ?? 'Model'}[node.role];
    this.body = make('div', {class: 'message-body'});
    this.calls = make('div', {class: 'calls'});
    this.foot = make('div', {class: 'message-foot'});
    this.element = make('article', {class: `message ${node.role}`, 'aria-label': who, 'data-id': node.id},
      node.role === 'user' ? null : make('div', {class: 'who'}, who), this.body, this.calls, this.foot);
    this.#fill();
  }

  #fill() {
    this.body.replaceChildren();
    if (this.#node.images?.length > 0) this.body.append(previews(this.#node.images));
    if (this.#node.role === 'user') this.body.append(make('div', {class: 'plain'}, this.#node.content));
    else if (this.#node.role === 'tool') this.body.append(codeBlock(pretty(this.#node.content), 'json').element);
    else this.#fillAnswer();
    this.#fillCalls();
    this.#fillFoot();
  }
  #fillAnswer() {
    const asTokens = this.#node.logprobs?.length > 0 && !this.#node.asMarkdown;
    this.text = asTokens ? new TokenText() : new AnswerText();
    this.body.append(this.text.element);
    if (asTokens) this.text.add(this.#node.logprobs);
    else this.text.add(this.#node.content);
    if (this.#isRunning) {
      this.element.setAttribute('aria-busy', 'true');
      if (this.#node.content === '') this.body.append(this.waiting = make('div', {class: 'waiting', role: 'img', 'aria-label': 'Waiting for the answer'}, make('i'), make('i'), make('i')));
    } else this.#end();
  }
  #end() {
    if (this.text instanceof AnswerText) this.text.finish();
    if (this.#node.error) this.body.append(make('div', {class: 'problem'}, this.#node.error));
  }

  /// What comes while it runs.
  add(text, entries) {
    if (text !== '' || entries.length > 0) this.waiting?.remove();
    if (entries.length > 0 && !(this.text instanceof TokenText)) return this.#refill();
    this.text.add(this.text instanceof TokenText ? entries : text);
  }
  #refill() {
    this.body.replaceChildren();
    this.#fillAnswer();
  }
  showCalls() {
    this.waiting?.remove();
    this.#fillCalls();
  }
  end() {
    this.#isRunning = false;
    this.waiting?.remove();
    this.element.removeAttribute('aria-busy');
    this.#end();
    this.#fillCalls();
    this.#fillFoot();
  }

  #fillCalls() {
    const calls = this.#node.calls ?? [];
    this.calls.replaceChildren(...calls.map((call) => make('div', {class: 'call'}, make('div', {class: 'call-name'}, `Calls ${call.function.name}`),
      codeBlock(pretty(call.function.arguments), 'json').element)));
    if (calls.length === 0 || this.#isRunning || (this.#conversation.children[this.#node.id] ?? []).length > 0) return;
    const results = calls.map((call) => make('textarea', {class: 'code-area', rows: 2, spellcheck: 'false', placeholder: '{"result": 1}', 'data-call': call.id}));
    this.calls.append(make('form', {class: 'results', onsubmit: (event) => {
      event.preventDefault();
      this.#acts.results(this.#node, results.map((area) => area.value));
    }}, ...calls.map((call, i) => field(`Result of ${call.function.name}`, results[i])), make('button', {type: 'submit', class: 'main'}, 'Send the results')));
  }

  #fillFoot() {
    const node = this.#node;
    const {ids, at} = siblingsOf(this.#conversation, node);
    const copy = iconButton('copy', 'Copy', () => copyText(node.content, copy));
    const parts = [];
    if (ids.length > 1) {
      parts.push(make('span', {class: 'branches', role: 'group', 'aria-label': 'Branches'},
        iconButton('left', 'Previous branch', () => this.#acts.choose(ids[at - 1]), {disabled: at === 0}),
        make('span', {}, `${at + 1} / ${ids.length}`),
        iconButton('right', 'Next branch', () => this.#acts.choose(ids[at + 1]), {disabled: at === ids.length - 1})));
    }
    if (!this.#isRunning) {
      parts.push(copy, iconButton('edit', 'Edit', () => this.#edit()));
      if (node.role === 'assistant') parts.push(iconButton('again', 'Regenerate', () => this.#acts.again(node)));
      parts.push(iconButton('bin', 'Delete from here on', () => this.#acts.remove(node)));
      if (node.logprobs?.length > 0)
        parts.push(button(node.asMarkdown ? 'Probabilities' : 'Markdown', () => {
          node.asMarkdown = !node.asMarkdown;
          this.#fill();
        }, {class: 'link'}));
    }
    if (node.role === 'assistant') parts.push(make('span', {class: 'figures'}, this.#isRunning ? '' : figuresOf(node)));
    this.foot.replaceChildren(...parts);
  }

  #edit() {
    const area = make('textarea', {class: 'edit-area', 'aria-label': 'Text of the message', value: this.#node.content, onkeydown: (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this.#leaveEdit();
      }
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) save();
    }});
    const save = () => this.#acts.edit(this.#node, area.value);
    this.element.classList.add('edited');
    this.body.replaceChildren(area, make('div', {class: 'row end'}, button('Cancel', () => this.#leaveEdit()),
      button(this.#node.role === 'user' ? 'Send' : 'Save as a branch', save, {class: 'main'})));
    area.style.blockSize = `${Math.min(area.scrollHeight + 4, innerHeight / 2)}px`;
    area.focus();
  }
  #leaveEdit() {
    this.element.classList.remove('edited');
    this.#fill();
    this.foot.querySelector('[aria-label=Edit]')?.focus();
  }
}
