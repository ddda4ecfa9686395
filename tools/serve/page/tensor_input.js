// SPDX-License-Identifier: Apache-2.0
// The form of one input: its shape, and where its numbers come from.
import {make, field, nextId} from './dom.js';
import {bytesOf, countOf, kTypes, parseNumbers, readNpy, valuesOf} from './tensor_data.js';

const kFills = {zeros: () => 0, ones: () => 1, range: (i) => i, random: null};
const kMostNumbers = 64 << 20;

/// Pixels of an image file as numbers from 0 to 1, less their mean, by their deviation. The layout is that of the shape.
async function pixelsOf(file, shape, mean, deviation) {
  const isLast = shape.at(-1) === 3 || shape.at(-1) === 1;
  const [height, width, channels] = isLast ? shape.slice(-3) : [shape.at(-2), shape.at(-1), shape.at(-3)];
  if (channels !== 3 && channels !== 1) throw new Error('The shape is that of no image: [1, 3, height, width] or [1, height, width, 3]');
  const canvas = make('canvas', {width, height});
  const context = canvas.getContext('2d');
  context.drawImage(await createImageBitmap(file), 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height).data;
  return (i) => {
    const channel = isLast ? i % channels : Math.floor(i / (width * height)) % channels;
    const pixel = (isLast ? Math.floor(i / channels) : i % (width * height)) % (width * height);
    const raw = channels === 1 ? (pixels[pixel * 4] + pixels[pixel * 4 + 1] + pixels[pixel * 4 + 2]) / 3 : pixels[pixel * 4 + channel];
    return (raw / 255 - mean[channel % mean.length]) / deviation[channel % deviation.length];
  };
}

export class TensorInput {
  #file = null;

  constructor({name, datatype, shape}) {
    Object.assign(this, {name, datatype, declared: shape});
    const id = `tensor-${nextId()}`;
    this.dims = shape.map((dim, i) => make('input', {type: 'number', min: 0, step: 1, class: 'dim', value: dim < 0 ? 1 : dim, readonly: dim >= 0, 'aria-label': `${name}, dimension ${i}`}));
    this.from = make('select', {id: `${id}-from`, onchange: () => this.#show()}, ...[['text', 'Numbers'], ['zeros', 'Zeros'], ['ones', 'Ones'], ['range', '0, 1, 2, ..'], ['random', 'Random'], ['file', '.npy file'], ['image', 'Image']]
      .map(([value, text]) => make('option', {value}, text)));
    this.text = make('textarea', {rows: 3, class: 'code-area', id: `${id}-text`, spellcheck: 'false', 'aria-label': `Numbers of ${name}`, placeholder: 'JSON lists, or lines: 1, 2, 3', onchange: () => this.#fit(parseSafely(this.text.value))});
    this.file = make('input', {type: 'file', id: `${id}-file`, 'aria-label': `File of ${name}`, onchange: () => this.#take(this.file.files[0])});
    this.mean = make('input', {type: 'text', id: `${id}-mean`, value: '0', size: 18});
    this.deviation = make('input', {type: 'text', id: `${id}-deviation`, value: '1', size: 18});
    this.image = make('div', {class: 'row'}, field('Mean', this.mean, 'as 0.485, 0.456, 0.406'), field('Deviation', this.deviation));
    this.note = make('small', {class: 'bad-text', role: 'status'});
    this.element = make('fieldset', {class: 'tensor'}, make('legend', {}, make('code', {}, name), ` ${datatype} [${shape.map((dim) => dim < 0 ? '?' : dim).join(', ')}]`),
      make('div', {class: 'row'}, make('span', {}, 'Shape'), ...this.dims, field('From', this.from)), this.text, this.file, this.image, this.note);
    this.#show();
  }

  #show() {
    const from = this.from.value;
    this.text.hidden = from !== 'text';
    this.file.hidden = from !== 'file' && from !== 'image';
    this.file.accept = from === 'image' ? 'image/*' : '.npy';
    this.image.hidden = from !== 'image';
  }
  /// Sets what may be chosen of the shape.
  #fit(shape) {
    if (!shape || shape.length === 0) return;
    if (shape.length === this.dims.length) return this.dims.forEach((dim, i) => { if (!dim.readOnly) dim.value = shape[i]; });
    // A list without lists: one dimension takes what is left.
    const open = this.dims.filter((dim) => !dim.readOnly);
    const rest = this.dims.filter((dim) => dim !== open.at(-1)).reduce((product, dim) => product * Number(dim.value), 1);
    if (open.length > 0 && rest > 0) open.at(-1).value = countOf(shape) / rest;
  }
  async #take(file) {
    this.note.textContent = '';
    this.#file = file ?? null;
    if (!file || this.from.value !== 'file') return;
    try {
      this.#file = readNpy(await file.arrayBuffer());
      this.#fit(this.#file.shape);
    } catch (error) {
      this.#file = null;
      this.note.textContent = `'${file.name}': ${error.message}`;
    }
  }
  get shape() { return this.dims.map((dim) => Number(dim.value)); }

  /// {name, datatype, shape, bytes}. Throws an Error that names the tensor.
  async read() {
    const {shape, datatype, name} = this;
    try {
      const count = countOf(shape);
      if (!shape.every((dim) => Number.isInteger(dim) && dim >= 0)) throw new Error('the shape has a dimension that is no whole number');
      if (count > kMostNumbers) throw new Error(`${count} numbers: ${kMostNumbers} at most`);
      if (!kTypes[datatype]) throw new Error(`${datatype} is not supported by this page`);
      return {name, datatype, shape, bytes: await this.#bytes(count)};
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  }
  async #bytes(count) {
    const from = this.from.value;
    if (from in kFills) return bytesOf(this.datatype, count, kFills[from] ?? (() => kTypes[this.datatype].isWhole ? Math.floor(Math.random() * 2) : Math.random()));
    if (from === 'text') {
      const {values} = parseNumbers(this.text.value);
      if (values.length !== count) throw new Error(`${values.length} numbers, and the shape [${this.shape}] has ${count}`);
      return bytesOf(this.datatype, count, (i) => values[i]);
    }
    if (this.#file === null) throw new Error('choose a file');
    if (from === 'image') {
      const numbers = (input) => input.value.split(/[\s,]+/).filter((each) => each !== '').map(Number);
      return bytesOf(this.datatype, count, await pixelsOf(this.#file, this.shape, numbers(this.mean), numbers(this.deviation)));
    }
    const {datatype, bytes} = this.#file;
    if (bytes.length / kTypes[datatype].bytes !== count) throw new Error(`the file has the shape [${this.#file.shape}]`);
    if (datatype === this.datatype) return bytes;
    const values = valuesOf(datatype, bytes);
    return bytesOf(this.datatype, count, (i) => typeof values[i] === 'bigint' ? String(values[i]) : Number(values[i]));
  }
}

function parseSafely(text) {
  try {
    return parseNumbers(text).shape;
  } catch { return null; }
}
