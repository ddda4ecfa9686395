// SPDX-License-Identifier: Apache-2.0
// A figure over the last minutes: a line (SVG), its last value and its largest.
import {make} from './dom.js';

const kPoints = 120, kWidth = 240, kHeight = 44;
const kSpace = 'http://www.w3.org/2000/svg';

export class Plot {
  #values = [];

  /// `format` makes text of a value; `top`: the least upper end of the axis.
  constructor(title, format, top = 0) {
    this.format = format;
    this.top = top;
    this.now = make('strong', {}, '–');
    this.most = make('span', {class: 'soft small'});
    this.svg = document.createElementNS(kSpace, 'svg');
    this.svg.setAttribute('viewBox', `0 0 ${kWidth} ${kHeight}`);
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.svg.setAttribute('role', 'img');
    this.area = this.svg.appendChild(document.createElementNS(kSpace, 'path'));
    this.line = this.svg.appendChild(document.createElementNS(kSpace, 'path'));
    this.area.setAttribute('class', 'plot-area');
    this.line.setAttribute('class', 'plot-line');
    this.title = title;
    this.element = make('div', {class: 'plot'}, make('div', {class: 'plot-head'}, make('span', {}, title), this.now), this.svg, this.most);
    this.add(null);
  }

  /// null: nothing is known at that time.
  add(value) {
    this.#values.push(value);
    if (this.#values.length > kPoints) this.#values.shift();
    const known = this.#values.filter((each) => each !== null);
    const largest = Math.max(this.top, ...known);
    this.now.textContent = value === null ? '–' : this.format(value);
    this.most.textContent = known.length === 0 ? '' : `most ${this.format(Math.max(...known))}`;
    this.svg.setAttribute('aria-label', `${this.title}: ${this.now.textContent}, ${this.most.textContent || 'nothing yet'}`);
    let line = '', area = '', begin = null, last = null;
    const close = () => { if (begin !== null) area += `L${last} ${kHeight}L${begin} ${kHeight}Z`; begin = null; };
    this.#values.forEach((each, i) => {
      if (each === null) return close();
      const x = (kWidth * (kPoints - this.#values.length + i + 1) / kPoints).toFixed(1);
      const y = (kHeight - 2 - (largest > 0 ? each / largest : 0) * (kHeight - 5)).toFixed(1);
      const step = `${begin === null ? 'M' : 'L'}${x} ${y}`;
      line += step;
      area += step;
      begin ??= x;
      last = x;
    });
    close();
    this.line.setAttribute('d', line);
    this.area.setAttribute('d', area);
  }
}
