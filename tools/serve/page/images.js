// SPDX-License-Identifier: Apache-2.0
// Images of a message: chosen, pasted or dropped; shown on canvases, since the page loads no image from elsewhere.
import {make, iconButton, toast} from './dom.js';
import {kImageTypes, kMostImages} from './tree.js';

const kMostBytes = 20 * 1024 * 1024;
const kSide = 96;  // of a preview, in pixels

const dataUrlOf = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

const blobOf = (url) => {
  const [head, text] = url.split(',', 2);
  return new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], {type: head.slice(5).split(';')[0]});
};

/// A small picture of a data URL.
export function preview(url, label) {
  const canvas = make('canvas', {class: 'preview', role: 'img', 'aria-label': label, width: kSide, height: kSide});
  createImageBitmap(blobOf(url)).then((image) => {
    const scale = Math.min(kSide / image.width, kSide / image.height, 1);
    canvas.width = Math.max(1, Math.round(image.width * scale));
    canvas.height = Math.max(1, Math.round(image.height * scale));
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  }).catch(() => canvas.classList.add('broken'));
  return canvas;
}
export const previews = (urls) => make('div', {class: 'previews'}, ...urls.map((url, i) => preview(url, `Image ${i + 1}`)));

/// What a composer holds: `button` chooses files, `element` shows what is chosen.
export class ImageInput {
  urls = [];
  constructor() {
    this.input = make('input', {type: 'file', accept: kImageTypes.join(','), multiple: true, hidden: true, id: 'images', onchange: () => {
      this.add(this.input.files);
      this.input.value = '';
    }});
    this.button = iconButton('image', 'Add images', () => this.input.click(), {class: 'round', id: 'add-images'});
    this.element = make('div', {class: 'previews', 'aria-label': 'Images of the message', role: 'group', hidden: true});
  }
  set isShown(value) {
    this.button.hidden = !value;
    if (!value) this.clear();
  }
  get isShown() { return !this.button.hidden; }
  clear() {
    this.urls = [];
    this.#show();
  }
  /// Takes pasted, dropped or chosen files; whether there is an image among them.
  add(files) {
    if (!this.isShown) return false;
    const images = [...files].filter((file) => file.type.startsWith('image/'));
    for (const file of images) this.#read(file);
    return images.length > 0;
  }
  async #read(file) {
    if (!kImageTypes.includes(file.type)) return toast(`${file.name} is no PNG, JPEG or WebP file`, true);
    if (file.size > kMostBytes) return toast(`${file.name} is larger than ${kMostBytes / 1024 / 1024} MB`, true);
    if (this.urls.length === kMostImages) return toast(`A message has ${kMostImages} images at most`, true);
    try {
      this.urls.push(await dataUrlOf(file));
    } catch (error) {
      return toast(error.message, true);
    }
    this.#show();
  }
  #show() {
    this.element.hidden = this.urls.length === 0;
    this.element.replaceChildren(...this.urls.map((url, i) => make('span', {class: 'chosen'}, preview(url, `Image ${i + 1}`),
      iconButton('close', `Remove image ${i + 1}`, () => {
        this.urls.splice(i, 1);
        this.#show();
      }))));
  }
}
