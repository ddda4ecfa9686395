// SPDX-License-Identifier: Apache-2.0
// Any model by its tensors: a form for each input, a table for each output. They go as bytes (the protocol's binary extension).
import {make, button, saveFile} from './dom.js';
import {getJson, send} from './api.js';
import {currentModel} from './models.js';
import {kTypes, npyOf, valuesOf} from './tensor_data.js';
import {TensorInput} from './tensor_input.js';

const kMostRows = 20, kMostColumns = 12;
let inputs = [], form, note, result, controller = null;

async function infer(model, tensors, signal) {
  const head = new TextEncoder().encode(JSON.stringify({parameters: {binary_data_output: true},
    inputs: tensors.map(({name, datatype, shape, bytes}) => ({name, datatype, shape, parameters: {binary_data_size: bytes.length}}))}));
  const body = new Uint8Array(head.length + tensors.reduce((sum, {bytes}) => sum + bytes.length, 0));
  body.set(head);
  let at = head.length;
  for (const {bytes} of tensors) {
    body.set(bytes, at);
    at += bytes.length;
  }
  const answer = await send(`v2/models/${encodeURIComponent(model.id)}/infer`,
    {body, signal, headers: {'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': String(head.length)}});
  const all = new Uint8Array(await answer.arrayBuffer());
  const headSize = Number(answer.headers.get('Inference-Header-Content-Length') ?? all.length);
  const {outputs} = JSON.parse(new TextDecoder().decode(all.subarray(0, headSize)));
  at = headSize;
  return outputs.map((output) => {
    const size = output.parameters.binary_data_size;
    at += size;
    return {...output, bytes: all.slice(at - size, at)};
  });
}

const shown = (value) => typeof value === 'number' && !Number.isInteger(value) ? value.toPrecision(5) : String(value);

function summaryOf(values) {
  if (values.length === 0) return 'no numbers';
  let least = Infinity, most = -Infinity, sum = 0, bad = 0;
  for (const value of values) {
    const number = Number(value);
    if (!Number.isFinite(number)) ++bad;
    else {
      least = Math.min(least, number);
      most = Math.max(most, number);
      sum += number;
    }
  }
  return `least ${shown(least)} · most ${shown(most)} · mean ${shown(sum / (values.length - bad))}${bad ? ` · ${bad} not finite` : ''}`;
}

function tableOf(shape, values) {
  const columns = shape.at(-1) ?? 1;
  const rows = columns > 0 ? values.length / columns : 0;
  const wide = Math.min(columns, kMostColumns), tall = Math.min(rows, kMostRows);
  const line = (row) => make('tr', {}, make('th', {scope: 'row'}, String(row)), ...Array.from({length: wide}, (_, column) => make('td', {}, shown(values[row * columns + column]))), wide < columns ? make('td', {}, '…') : null);
  return make('div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Numbers'}, make('table', {class: 'numbers-table'},
    make('thead', {}, make('tr', {}, make('td'), ...Array.from({length: wide}, (_, column) => make('th', {scope: 'col'}, String(column))))),
    make('tbody', {}, ...Array.from({length: tall}, (_, row) => line(row)))), tall < rows ? make('p', {class: 'soft small'}, `${rows - tall} more rows: save the file`) : null);
}

/// The likeliest classes, of logits [1, classes].
function likeliest(shape, values) {
  const columns = shape.at(-1) ?? 0;
  if (values.length !== columns || columns < 3 || columns > 100_000) return null;
  const most = Math.max(...values);
  const all = values.map((value) => Math.exp(value - most));
  const sum = all.reduce((total, each) => total + each, 0);
  const best = values.map((value, i) => [i, value]).sort((a, b) => b[1] - a[1]).slice(0, 5);
  return make('ol', {class: 'results-list', 'aria-label': 'Largest numbers'}, ...best.map(([i, value]) => {
    const meter = make('span', {class: 'meter'});
    meter.style.inlineSize = `${all[i] / sum * 100}%`;
    return make('li', {}, make('span', {class: 'score'}, shown(value)), make('span', {class: 'track'}, meter), make('span', {class: 'found'}, `index ${i}`), make('small', {class: 'soft'}, `softmax ${(all[i] / sum * 100).toFixed(1)} %`));
  }));
}

function outputOf({name, datatype, shape, bytes}) {
  const values = valuesOf(datatype, bytes);
  const isFloat = !kTypes[datatype].isWhole;
  return make('section', {class: 'tensor', 'aria-label': name}, make('h3', {}, make('code', {}, name), ` ${datatype} [${shape.join(', ')}]`), make('p', {class: 'figures'}, summaryOf(values)),
    isFloat ? likeliest(shape, values) : null, tableOf(shape, values), kTypes[datatype].npy ? button('Save as .npy', () => saveFile(`${name.replace(/[^\w.-]+/g, '_')}.npy`, 'application/octet-stream', ...npyOf(datatype, shape, bytes))) : null);
}

async function run() {
  controller?.abort();
  const mine = controller = new AbortController();
  note.className = 'figures';
  try {
    const tensors = await Promise.all(inputs.map((input) => input.read()));
    note.textContent = 'Running';
    const began = performance.now();
    const outputs = await infer(currentModel(), tensors, mine.signal);
    note.textContent = `${(performance.now() - began).toFixed(1)} ms`;
    result.replaceChildren(...outputs.map(outputOf));
  } catch (error) {
    note.textContent = error.name === 'AbortError' ? 'Stopped' : error.message;
    if (error.name !== 'AbortError') note.className = 'bad-text';
  }
  if (controller === mine) controller = null;
}

export async function mount(view) {
  const model = currentModel();
  note = make('span', {class: 'figures', id: 'note', role: 'status'});
  result = make('div', {id: 'result'});
  form = make('form', {onsubmit: (event) => { event.preventDefault(); run(); }}, make('p', {class: 'soft'}, 'Asking what it takes'));
  view.replaceChildren(make('div', {class: 'page-column'}, make('h2', {}, `Tensors of ${model.id}`), form, result));
  try {
    const metadata = await getJson(`v2/models/${encodeURIComponent(model.id)}`);
    inputs = metadata.inputs.map((input) => new TensorInput(input));
    form.replaceChildren(...inputs.map((input) => input.element), make('div', {class: 'row'}, make('button', {type: 'submit', class: 'main', id: 'run'}, 'Run'), note));
  } catch (error) {
    form.replaceChildren(make('p', {class: 'bad-text'}, error.message));
  }
}
export const changeModel = () => mount(document.getElementById('view'));
export function unmount() { controller?.abort(); }
export function stop() {
  const isRunning = controller !== null;
  controller?.abort();
  return isRunning;
}
export const focus = () => form?.querySelector('input:not([readonly]), select')?.focus();
