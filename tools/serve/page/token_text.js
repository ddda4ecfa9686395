// SPDX-License-Identifier: Apache-2.0
// A text by its tokens, each as dark as it was unlikely; the likeliest others on hover, or on focus with the arrow keys.
import {make} from './dom.js';

const share = (logprob) => `${(Math.exp(logprob) * 100).toFixed(logprob > -4.6 ? 1 : 3)} %`;
const shown = (text) => text === '' ? '(empty)' : text.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/ /g, '·');

/// Entries as chats have them: {token, logprob, top_logprobs}.
export class TokenText {
  #entries = [];
  #tip = make('div', {class: 'tip', role: 'tooltip', id: `tip-${crypto.getRandomValues(new Uint32Array(1))[0]}`, hidden: true});
  #current = 0;

  constructor() {
    this.text = make('div', {class: 'tokens', role: 'listbox', tabindex: 0, 'aria-label': 'Tokens with their probabilities: arrow keys go from one to the next'});
    this.element = make('div', {class: 'token-text'}, this.text, this.#tip);
    this.text.addEventListener('pointerover', (event) => this.#show(event.target.closest('.tok')));
    this.text.addEventListener('pointerleave', () => this.#hide());
    this.text.addEventListener('focus', () => this.#go(0));
    this.text.addEventListener('blur', () => this.#hide());
    this.text.addEventListener('keydown', (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10}[event.key];
      if (event.key === 'Escape') this.#hide();
      if (step === undefined) return;
      event.preventDefault();
      this.#go(step);
    });
  }

  add(entries) {
    const added = entries.map((entry) => {
      const index = this.#entries.push(entry) - 1;
      const level = Math.min(4, Math.floor(-entry.logprob / 0.7));
      return make('span', {class: `tok level-${level}`, role: 'option', 'aria-selected': 'false', id: `${this.#tip.id}-${index}`,
                           'aria-label': `${shown(entry.token)}, ${share(entry.logprob)}`}, entry.token);
    });
    this.text.append(...added);
  }

  #go(step) {
    if (this.#entries.length === 0) return;
    this.#current = Math.max(0, Math.min(this.#entries.length - 1, this.#current + step));
    this.#show(this.text.children[this.#current]);
  }
  #show(token) {
    if (!token) return;
    this.text.querySelector('[aria-selected=true]')?.setAttribute('aria-selected', 'false');
    token.setAttribute('aria-selected', 'true');
    this.text.setAttribute('aria-activedescendant', token.id);
    this.#current = [...this.text.children].indexOf(token);
    const {token: name, logprob, top_logprobs: others} = this.#entries[this.#current];
    const row = (each, isDrawn) => {
      const meter = make('span', {class: 'meter'});
      meter.style.inlineSize = `${Math.max(1, Math.exp(each.logprob) * 100)}%`;
      return make('div', {class: isDrawn ? 'tip-row drawn' : 'tip-row'}, make('code', {}, shown(each.token)), make('span', {class: 'track'}, meter), share(each.logprob));
    };
    const rows = (others ?? []).slice().sort((a, b) => b.logprob - a.logprob);
    this.#tip.replaceChildren(...(rows.length > 0 ? rows.map((each) => row(each, each.token === name)) : [row({token: name, logprob}, true)]));
    this.#tip.hidden = false;
    const box = this.element.getBoundingClientRect(), at = token.getBoundingClientRect();
    this.#tip.style.insetBlockStart = `${at.bottom - box.top + 6}px`;
    this.#tip.style.insetInlineStart = `${Math.max(0, Math.min(at.left - box.left, box.width - this.#tip.offsetWidth))}px`;
  }
  #hide() {
    this.#tip.hidden = true;
  }
}
