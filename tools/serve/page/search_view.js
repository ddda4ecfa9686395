// SPDX-License-Identifier: Apache-2.0
// Search over pasted lines: by the cosines of vectors, or by a cross-encoder's scores.
import {make, button, field} from './dom.js';
import {getJson} from './api.js';
import {currentModel, does} from './models.js';
import {read, write} from './store.js';
import {dot, linesOf, vectorsOf} from './vectors.js';

const kMostShown = 50;
let query, lines, label, note, result;

async function scoresOf(model, wanted, texts) {
  if (does(model, 'embedding')) {
    const [first, ...others] = await vectorsOf(model, [wanted, ...texts], {onprogress: (done, all) => { note.textContent = `${done} of ${all} texts`; }});
    return others.map((each, index) => ({index, score: dot(first, each)}));
  }
  const body = {model: model.id, query: wanted, documents: texts, return_documents: false};
  if (label.value !== '') body.label = Number(label.value);
  const {results} = await getJson('v1/rerank', {body});
  return results.map((each) => ({index: each.index, score: each.relevance_score}));
}

async function search() {
  const texts = linesOf(lines.value);
  note.className = 'figures';
  try {
    if (query.value.trim() === '') throw new Error('Write what is searched for');
    if (texts.length === 0) throw new Error('Paste lines to be searched');
    const began = performance.now();
    const found = (await scoresOf(currentModel(), query.value, texts)).sort((a, b) => b.score - a.score);
    note.textContent = `${texts.length} lines, ${(performance.now() - began).toFixed(0)} ms`;
    result.replaceChildren(...found.slice(0, kMostShown).map(({index, score}) => {
      const meter = make('span', {class: 'meter'});
      meter.style.inlineSize = `${Math.max(0, Math.min(1, score)) * 100}%`;
      return make('li', {}, make('span', {class: 'score'}, score.toFixed(3)), make('span', {class: 'track'}, meter), make('span', {class: 'found'}, texts[index]), make('small', {class: 'soft'}, `line ${index + 1}`));
    }));
  } catch (error) {
    note.textContent = error.message;
    note.className = 'bad-text';
  }
}

export function mount(view) {
  const isRanking = !does(currentModel(), 'embedding');
  query = make('input', {type: 'search', id: 'query', 'aria-label': 'What is searched for', placeholder: 'What is searched for', value: read('query', ''), oninput: () => write('query', query.value)});
  lines = make('textarea', {rows: 9, id: 'lines', value: read('lines', ''), placeholder: 'Paste lines here', oninput: () => write('lines', lines.value)});
  label = make('input', {type: 'number', min: 0, step: 1, id: 'label'});
  note = make('span', {class: 'figures', id: 'note', role: 'status'});
  result = make('ol', {class: 'results-list', id: 'result', 'aria-label': 'Found lines'});
  view.replaceChildren(make('div', {class: 'page-column'}, make('h2', {}, isRanking ? 'Rank lines by a question' : 'Search in lines'),
    make('form', {class: 'row', onsubmit: (event) => { event.preventDefault(); search(); }}, query, make('button', {type: 'submit', class: 'main', id: 'run'}, isRanking ? 'Rank' : 'Search')),
    note, result, field('Lines', lines, 'Each line is a text of its own'), isRanking ? field('Label that means "fits"', label, 'Of models with more than two labels') : null));
}
export const changeModel = () => mount(document.getElementById('view'));
export const focus = () => query.focus();
