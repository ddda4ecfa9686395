// SPDX-License-Identifier: Apache-2.0
// Pasted texts beside each other: cosines of their vectors as a matrix.
import {make, button, saveFile} from './dom.js';
import {currentModel} from './models.js';
import {read, write} from './store.js';
import {dot, linesOf, vectorsOf} from './vectors.js';

const kMost = 100;
const kExample = 'The cat sleeps on the sofa.\nA kitten is napping on the couch.\nThe stock market fell today.\nShares lost value this afternoon.\nHow do I bake bread?';
let texts, note, result;

function matrixOf(lines, vectors) {
  const short = (line) => line.length > 60 ? `${line.slice(0, 58)}…` : line;
  const rows = vectors.map((a) => vectors.map((b) => dot(a, b)));
  const head = make('tr', {}, make('td'), ...lines.map((line, i) => make('th', {scope: 'col', title: line}, String(i + 1))));
  const body = rows.map((row, i) => make('tr', {}, make('th', {scope: 'row', title: lines[i]}, `${i + 1}. ${short(lines[i])}`), ...row.map((value, j) => {
    const cell = make('td', {class: 'heat', title: `${lines[i]}\n${lines[j]}`}, value.toFixed(2));
    cell.style.setProperty('--heat', Math.max(0, Math.min(1, value)).toFixed(3));
    return cell;
  })));
  const save = button('Save as CSV', () => saveFile('similarity.csv', 'text/csv', [['', ...lines], ...rows.map((row, i) => [lines[i], ...row])]
    .map((row) => row.map((each) => typeof each === 'number' ? each.toFixed(6) : `"${each.replace(/"/g, '""')}"`).join(',')).join('\n')));
  return [make('div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Similarities'},
    make('table', {class: 'matrix'}, make('caption', {class: 'unseen'}, 'Cosines of the texts'), make('thead', {}, head), make('tbody', {}, ...body))), make('div', {class: 'row'}, save)];
}

async function compare() {
  const lines = linesOf(texts.value);
  note.className = 'figures';
  try {
    if (lines.length < 2) throw new Error('Write two texts or more, one a line');
    if (lines.length > kMost) throw new Error(`${lines.length} texts: ${kMost} at most`);
    const began = performance.now();
    const vectors = await vectorsOf(currentModel(), lines, {onprogress: (done, all) => { note.textContent = `${done} of ${all} texts`; }});
    note.textContent = `${lines.length} texts, vectors of ${vectors[0].length} numbers, ${(performance.now() - began).toFixed(0)} ms`;
    result.replaceChildren(...matrixOf(lines, vectors));
  } catch (error) {
    note.textContent = error.message;
    note.className = 'bad-text';
  }
}

export function mount(view) {
  texts = make('textarea', {rows: 8, id: 'texts', 'aria-label': 'Texts, one a line', value: read('texts', kExample), oninput: () => write('texts', texts.value), onkeydown: (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) compare();
  }});
  note = make('span', {class: 'figures', id: 'note', role: 'status'});
  result = make('div', {id: 'result'});
  view.replaceChildren(make('div', {class: 'page-column'}, make('h2', {}, 'Similarity of texts'), make('p', {class: 'soft'}, 'One text a line. Each cell is the cosine of two texts.'),
    texts, make('div', {class: 'row'}, button('Compare', compare, {class: 'main', id: 'run', title: 'Ctrl+Enter'}), note), result));
}
export const changeModel = () => mount(document.getElementById('view'));
export const focus = () => texts.focus();
