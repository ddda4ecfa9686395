// SPDX-License-Identifier: Apache-2.0
// /metrics of the chosen model, each second while it is looked at. A row for each plot.
import {make} from './dom.js';
import {send} from './api.js';
import {currentModel} from './models.js';
import {Plot} from './plot.js';

const kEvery = 1000;
const whole = (value) => Math.round(value).toLocaleString();
const perSecond = (value) => `${value < 100 ? value.toFixed(1) : whole(value)} /s`;
const percent = (value) => `${(value * 100).toFixed(0)} %`;
const time = (value) => value < 0.001 ? `${(value * 1e6).toFixed(0)} µs` : value < 1 ? `${(value * 1000).toFixed(1)} ms` : `${value.toFixed(2)} s`;

const rate = (name) => (now, before, seconds) => (now[name] - before[name]) / seconds;
const gauge = (name) => (now) => now[name];
/// Of two counters: what is new of one in what is new of the other; null where nothing is.
const ratio = (part, all) => (now, before) => now[all] > before[all] ? (now[part] - before[part]) / (now[all] - before[all]) : null;
const mean = (name) => ratio(`${name}_sum`, `${name}_count`);

const kTextPlots = [
  ['Tokens generated', perSecond, rate('generated_tokens_total'), 1],
  ['Tokens of prompts', perSecond, rate('prompt_tokens_total'), 1],
  ['Sequences that run', whole, gauge('sequences_running'), 1],
  ['Sequences that wait', whole, gauge('sequences_waiting'), 1],
  ['Cache in use', percent, (now) => now.cache_blocks > 0 ? now.cache_blocks_used / now.cache_blocks : null, 1],
  ['Cache with known prefixes', percent, (now) => now.cache_blocks > 0 ? now.cache_blocks_cached / now.cache_blocks : null, 1],
  ['Prefix hits', percent, ratio('prefix_hit_tokens_total', 'prefix_tokens_total'), 1],
  ['Time to the first token', time, mean('time_to_first_token_seconds'), 0],
  ['Time between tokens', time, mean('time_between_tokens_seconds'), 0],
];
const kTensorPlots = [
  ['Inferences', perSecond, rate('inferences_total'), 1],
  ['Inferences that run', whole, gauge('inferences_running'), 1],
  ['Inferences that wait', whole, gauge('inferences_waiting'), 1],
  ['Rows of a run', (value) => value.toFixed(1), ratio('inference_rows_total', 'inference_runs_total'), 1],
  ['Time of a run', time, mean('inference_run_seconds'), 0],
];

/// Figures of a model, by their names.
export function parseMetrics(text, model) {
  const found = {};
  for (const line of text.split('\n')) {
    const match = line.match(/^sinter_(\w+)\{model="((?:[^"\\]|\\.)*)"\} (\S+)$/);
    if (match && match[2].replace(/\\(.)/g, (_, sign) => sign === 'n' ? '\n' : sign) === model) found[match[1]] = Number(match[3]);
  }
  return found;
}

export function serverFigures() {
  const box = make('div', {class: 'plots'});
  const state = {element: box, isShown: false};
  let model = null, plots = [], before = null, at = 0;

  async function look() {
    if (!state.isShown || document.hidden || currentModel() === null) return;
    const name = currentModel().id;
    let now;
    try {
      now = parseMetrics(await (await send('metrics', {quiet: true})).text(), name);
    } catch (error) {
      box.replaceChildren(make('p', {class: 'soft'}, `No figures: ${error.message}`));
      model = null;
      return;
    }
    const time = performance.now();
    if (model !== name) {
      model = name;
      before = null;
      const rows = 'generated_tokens_total' in now ? kTextPlots : 'inferences_total' in now ? kTensorPlots : [];
      plots = rows.map(([title, format, value, top]) => ({plot: new Plot(title, format, top), value}));
      box.replaceChildren(...(rows.length > 0 ? plots.map(({plot}) => plot.element) : [make('p', {class: 'soft'}, 'The server counts nothing of this model.')]));
    }
    if (before) for (const {plot, value} of plots) plot.add(value(now, before, (time - at) / 1000));
    before = now;
    at = time;
  }
  setInterval(look, kEvery);
  return state;
}
