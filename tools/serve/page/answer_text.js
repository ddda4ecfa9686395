// SPDX-License-Identifier: Apache-2.0
// The text of an answer: what the model thinks (<think>..</think>) folds away, the rest is Markdown.
import {make} from './dom.js';
import {MarkdownStream} from './markdown_stream.js';

const kOpens = '<think>', kCloses = '</think>';

export class AnswerText {
  #text = '';
  #thought = null;  // {stream, at}
  #answer = null;
  #at = 0;          // where the answer goes on
  #isUndecided = true;

  element = make('div', {class: 'answer'});

  add(text) {
    this.#text += text;
    if (this.#isUndecided) {
      const begun = this.#text.trimStart();
      if (begun.length < kOpens.length && kOpens.startsWith(begun)) return;
      this.#isUndecided = false;
      if (begun.startsWith(kOpens)) this.#begin(this.#text.indexOf(kOpens) + kOpens.length);
    }
    if (this.#thought) return this.#think();
    this.#say();
  }
  finish() {
    this.#isUndecided = false;
    if (this.#thought) {
      this.#thought.stream.add(this.#text.slice(this.#thought.at));
      this.#thought.stream.finish();
      this.#thought = null;
    } else this.#say();
    this.#answer?.finish();
  }

  #begin(at) {
    const inner = make('div', {class: 'thought-text'});
    this.element.append(make('details', {class: 'thought'}, make('summary', {}, 'Reasoning'), inner));
    this.#thought = {stream: new MarkdownStream(inner), at};
  }
  #think() {
    const end = this.#text.indexOf(kCloses, this.#thought.at);
    // The last characters may be the beginning of the end.
    const until = end >= 0 ? end : Math.max(this.#thought.at, this.#text.length - kCloses.length + 1);
    this.#thought.stream.add(this.#text.slice(this.#thought.at, until));
    this.#thought.at = until;
    if (end < 0) return;
    this.#thought.stream.finish();
    this.#thought = null;
    this.#at = end + kCloses.length;
    this.#say();
  }
  #say() {
    if (!this.#answer) {
      const rest = this.#text.slice(this.#at);
      if (rest.trim() === '') return;
      this.#at += rest.length - rest.replace(/^\n+/, '').length;
      const box = make('div', {class: 'markdown'});
      this.element.append(box);
      this.#answer = new MarkdownStream(box);
    }
    this.#answer.add(this.#text.slice(this.#at));
    this.#at = this.#text.length;
  }
}
