// SPDX-License-Identifier: Apache-2.0
// Text that goes on: for models without a chat template, without a tokenizer (token ids), and for encoder-decoders, whose prompt is
// what the answer is made of.
import {make, button, iconButton, copyText, speak} from './dom.js';
import {stream} from './api.js';
import {currentModel} from './models.js';
import {currentSettings, requestFields} from './settings.js';
import {read, write} from './store.js';
import {TokenText} from './token_text.js';

const kUsualTokens = 256;

let prompt, output, note, run, stopButton, acts, controller = null, generated = '';

function promptOf(model, text) {
  if (model.prompt !== 'ids') return text;
  if (!/^\s*\d+([\s,]+\d+)*\s*$/.test(text)) throw new Error('The model is served without a tokenizer: write token ids, as 1, 2, 3');
  return text.trim().split(/[\s,]+/).map(Number);
}

/// Of completions: lists, one for each field.
function entriesOf(logprobs) {
  return (logprobs?.tokens ?? []).map((token, i) => ({token, logprob: logprobs.token_logprobs[i],
    top_logprobs: Object.entries(logprobs.top_logprobs?.[i] ?? {}).map(([name, logprob]) => ({token: name, logprob}))}));
}

async function generate() {
  if (controller) return;
  const model = currentModel();
  controller = new AbortController();
  setRunning(true);
  generated = '';
  note.textContent = '';
  note.classList.remove('bad-text');
  const began = performance.now();
  let first = 0, tokens = 0, finish = '';
  try {
    const usual = Math.max(1, Math.min(kUsualTokens, Math.floor(model.max_model_len / 4)));
    const body = {model: model.id, prompt: promptOf(model, prompt.value), stream: true, return_token_ids: true, max_tokens: usual, ...requestFields(currentSettings(), false)};
    const text = make('span', {class: 'new-text'});
    let tokenText = null;
    output.replaceChildren(model.prompt === 'source' ? '' : make('span', {class: 'old-text'}, prompt.value), text);
    for await (const event of stream('v1/completions', body, controller.signal)) {
      const choice = event.choices?.[0];
      if (!choice) continue;
      const ids = choice.token_ids ?? [];
      if (ids.length > 0) first ||= performance.now() - began;
      tokens += ids.length;
      const piece = model.prompt === 'ids' ? ids.map((id) => `, ${id}`).join('') : choice.text;
      generated += piece;
      const entries = entriesOf(choice.logprobs);
      if (entries.length > 0) {
        if (!tokenText) text.replaceWith((tokenText = new TokenText()).element);
        tokenText.add(entries);
      } else text.append(piece);
      finish = choice.finish_reason ?? finish;
      const seconds = (performance.now() - began - first) / 1000;
      note.textContent = `${tokens} tokens${tokens > 1 ? ` · ${((tokens - 1) / Math.max(seconds, 1e-3)).toFixed(1)} tokens/s` : ''}` +
        ` · first after ${first.toFixed(0)} ms${finish ? ` · ${finish}` : ''}`;
    }
  } catch (error) {
    if (error.name === 'AbortError') note.textContent += ' · stopped';
    else {
      note.textContent = error.message;
      note.classList.add('bad-text');
    }
  }
  controller = null;
  setRunning(false);
  speak(note.textContent);
}

function setRunning(isRunning) {
  if (!run.isConnected) return;
  const hadFocus = document.activeElement === run || document.activeElement === stopButton;
  run.hidden = isRunning;
  stopButton.hidden = !isRunning;
  acts.hidden = isRunning || generated === '';
  if (hadFocus) (isRunning ? stopButton : run).focus();
}

export function mount(view) {
  const model = currentModel();
  const isSource = model.prompt === 'source';
  prompt = make('textarea', {rows: 7, id: 'prompt', 'aria-label': isSource ? 'Source text' : 'Prompt', spellcheck: 'false',
    placeholder: model.prompt === 'ids' ? '1, 2, 3' : isSource ? 'The text to be translated' : 'Once upon a time', value: read(`prompt.${model.id}`, ''),
    oninput: () => write(`prompt.${model.id}`, prompt.value), onkeydown: (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) generate();
    }});
  run = button(isSource ? 'Generate' : 'Complete', generate, {class: 'main', id: 'run', title: 'Ctrl+Enter'});
  stopButton = button('Stop', () => controller?.abort(), {id: 'stop', hidden: true});
  note = make('span', {class: 'figures', id: 'note'});
  output = make('div', {class: 'output', id: 'output', tabindex: 0, role: 'region', 'aria-label': 'Text'});
  const copy = iconButton('copy', 'Copy the new text', () => copyText(generated, copy));
  acts = make('div', {class: 'row', hidden: true}, copy, button('Generate again', generate),
    isSource ? null : button('Go on from here', () => {
      prompt.value += generated;
      write(`prompt.${model.id}`, prompt.value);
      generate();
    }));
  view.replaceChildren(make('div', {class: 'page-column'}, make('h2', {}, isSource ? 'Generate from a text' : 'Complete a text'),
    model.tasks.includes('chat') ? null : make('p', {class: 'soft'}, isSource ? 'An encoder reads the text, the decoder writes the answer.'
      : 'This model is served without a chat template: it goes on with what you write.'),
    prompt, make('div', {class: 'row'}, run, stopButton, note), output, acts));
}
export const changeModel = () => { unmount(); mount(document.getElementById('view')); };
export function unmount() { controller?.abort(); }
export function stop() {
  const isRunning = controller !== null;
  controller?.abort();
  return isRunning;
}
export const focus = () => prompt.focus();
