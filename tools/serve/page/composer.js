// SPDX-License-Identifier: Apache-2.0
// Where a message is written: grows with its text, sends, stops.
import {make, iconButton, icon} from './dom.js';
import {currentSettings, settings} from './settings.js';

export class Composer {
  /// `onsend(text)` says whether it was taken.
  constructor(label, onsend, onstop) {
    this.onsend = onsend;
    this.area = make('textarea', {rows: 1, id: 'message', 'aria-label': label, placeholder: label, oninput: () => this.#fit(), onkeydown: (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    }});
    this.send = iconButton('send', 'Send', () => this.#send(), {class: 'round main', id: 'send'});
    this.stop = iconButton('stop', 'Stop', onstop, {class: 'round', id: 'stop', hidden: true});
    this.marks = make('div', {class: 'marks'});
    this.element = make('div', {class: 'composer'}, make('div', {class: 'composer-box'}, this.area, make('div', {class: 'composer-row'}, this.marks, this.stop, this.send)),
      make('p', {class: 'soft small'}, 'Enter sends, Shift+Enter begins a line, Esc stops, ? shows all keys'));
    const show = () => this.#showMarks();
    settings.addEventListener('changed', show);
    settings.addEventListener('replaced', show);
    show();
  }
  set isRunning(value) {
    this.stop.hidden = !value;
    this.send.hidden = value;
  }
  focus() { this.area.focus({preventScroll: true}); }

  #send() {
    const text = this.area.value;
    if (text.trim() === '' || this.send.hidden || !this.onsend(text)) return;
    this.area.value = '';
    this.#fit();
  }
  #fit() {
    this.area.style.blockSize = 'auto';
    this.area.style.blockSize = `${Math.min(this.area.scrollHeight, innerHeight * 0.4)}px`;
  }
  #showMarks() {
    const now = currentSettings();
    const mark = (name, text) => make('span', {class: 'mark'}, icon(name), text);
    this.marks.replaceChildren(...[
      now.tools.trim() && mark('tool', 'Tools'),
      now.form !== 'text' && mark('braces', {json: 'JSON', schema: 'JSON schema', regex: 'Expression'}[now.form]),
      now.logprobs && mark('dice', 'Probabilities')].filter(Boolean));
  }
}
