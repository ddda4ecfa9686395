// SPDX-License-Identifier: Apache-2.0
// A text by its tokens, each as dark as it was unlikely; the likeliest others on hover, or on focus with the arrow keys.
import {make, nextId} from './dom.js';

const share = (logprob) => `${(Math.exp(logprob) * 100).toFixed(logprob > -4.6 ? 1 : 3)} %`;
const shown = (text) => text === '' ? '(empty)' : text.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/ /g, '·');

// One for all, outside of what clips its content.
const tip = document.body.appendChild(make('div', {class: 'tip', role: 'tooltip', hidden: true}));
addEventListener('scroll', () => { tip.hidden = true; }, {capture: true, passive: true});

/// Entries as chats have them: {token, logprob, top_logprobs}.
export class TokenText {
  #entries = [];
  #id = `tokens-${nextId()}`;
  #current = 0;

  constructor() {
    this.text = make('div', {class: 'tokens', role: 'listbox', tabindex: 0, 'aria-label': 'Tokens with their probabilities: arrow keys go from one to the next'});
    this.element = this.text;
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
      return make('span', {class: `tok level-${level}`, role: 'option', 'aria-selected': 'false', id: `${this.#id}-${index}`,
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
    tip.replaceChildren(...(rows.length > 0 ? rows.map((each) => row(each, each.token === name)) : [row({token: name, logprob}, true)]));
    tip.hidden = false;
    const at = token.getBoundingClientRect();
    const isBelow = at.bottom + tip.offsetHeight + 8 < innerHeight;
    tip.style.insetBlockStart = `${isBelow ? at.bottom + 6 : at.top - tip.offsetHeight - 6}px`;
    tip.style.insetInlineStart = `${Math.max(4, Math.min(at.left, innerWidth - tip.offsetWidth - 4))}px`;
  }
  #hide() {
    tip.hidden = true;
  }
}
