// SPDX-License-Identifier: Apache-2.0
// Where a message is written: grows with its text, sends, stops.
import {make, iconButton, icon} from './dom.js';
import {ImageInput} from './images.js';
import {currentModel, does, models} from './models.js';
import {currentSettings, settings} from './settings.js';

export class Composer {
  /// `onsend(text, images)` says whether it was taken; images are data URLs.
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
    this.images = new ImageInput();
    this.area.addEventListener('paste', (event) => { if (this.images.add(event.clipboardData.files)) event.preventDefault(); });
    this.element = make('div', {class: 'composer'}, make('div', {class: 'composer-box'}, this.images.element, this.area,
      make('div', {class: 'composer-row'}, this.images.button, this.images.input, this.marks, this.stop, this.send)),
      make('p', {class: 'soft small'}, 'Enter sends, Shift+Enter begins a line, Esc stops, ? shows all keys'));
    this.element.addEventListener('dragover', (event) => { if (this.images.isShown) event.preventDefault(); });
    this.element.addEventListener('drop', (event) => { if (this.images.add(event.dataTransfer.files)) event.preventDefault(); });
    const see = () => { this.images.isShown = does(currentModel(), 'images'); };
    models.addEventListener('chosen', see);
    models.addEventListener('listed', see);
    see();
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
    const {urls} = this.images;
    if ((text.trim() === '' && urls.length === 0) || this.send.hidden || !this.onsend(text, urls)) return;
    this.area.value = '';
    this.images.clear();
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
