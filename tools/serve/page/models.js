// SPDX-License-Identifier: Apache-2.0
// What the server has, and which of it is chosen.
import {getJson} from './api.js';
import {read, write} from './store.js';

export const models = new EventTarget();
let all = [];
let chosen = null;

export const allModels = () => all;
export const currentModel = () => chosen;
export const modelOf = (name) => all.find((model) => model.id === name) ?? null;
export const does = (model, task) => model?.tasks?.includes(task) ?? false;

/// A row for each view: what it is for, and its module.
export const kViews = [
  {name: 'chat', title: 'Chat', fits: (model) => does(model, 'chat'), load: () => import('./chat_view.js')},
  {name: 'completion', title: 'Completion', fits: (model) => does(model, 'completion'), load: () => import('./completion_view.js')},
  {name: 'similarity', title: 'Similarity', fits: (model) => does(model, 'embedding'), load: () => import('./similarity_view.js')},
  {name: 'search', title: 'Search', fits: (model) => does(model, 'embedding') || does(model, 'ranking'), load: () => import('./search_view.js')},
  {name: 'speech', title: 'Speech', fits: (model) => does(model, 'transcription'), load: () => import('./speech_view.js')},
  {name: 'tensors', title: 'Tensors', fits: (model) => does(model, 'inference'), load: () => import('./tensor_view.js')},
];

export const viewsOf = (model) => kViews.filter((view) => view.fits(model));

export async function loadModels(options) {
  all = (await getJson('v1/models', options)).data;
  const wanted = chosen?.id ?? read('model', null);
  chosen = modelOf(wanted) ?? all[0] ?? null;
  models.dispatchEvent(new Event('listed'));
  return all;
}

export function chooseModel(name) {
  const model = modelOf(name);
  if (model === null || model === chosen) return;
  chosen = model;
  write('model', name);
  models.dispatchEvent(new Event('chosen'));
}
