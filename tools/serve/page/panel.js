// SPDX-License-Identifier: Apache-2.0
// At the other side: settings of requests, figures of the server.
import {make, iconButton, button} from './dom.js';
import {models} from './models.js';
import {settingsForm} from './settings.js';
import {serverFigures} from './server_figures.js';
import {read, write} from './store.js';

const kParts = [{name: 'settings', title: 'Settings'}, {name: 'server', title: 'Server'}];
let panel, bar, form, figures, shown = null, opener = null;

function show(name) {
  const wasShown = shown !== null;
  shown = name;
  document.body.classList.toggle('shows-panel', name !== null);
  figures.isShown = name === 'server';
  for (const part of kParts) bar.querySelector(`#open-${part.name}`).setAttribute('aria-expanded', String(part.name === name));
  if (name === null) {
    panel.replaceChildren();
    return wasShown && opener?.focus();
  }
  panel.replaceChildren(make('div', {class: 'panel-head'}, make('div', {class: 'tabs', role: 'group', 'aria-label': 'Settings and server'},
    ...kParts.map((part) => button(part.title, () => togglePanel(part.name, true), {'aria-current': part.name === name ? 'true' : null}))),
    iconButton('close', 'Close', () => togglePanel())), name === 'settings' ? form.element : figures.element);
}

/// Opens that part, or closes what is open. `stays`: does not close.
export function togglePanel(name = null, stays = false) {
  if (name !== null && shown === null) opener = document.activeElement;
  const next = shown === name && !stays ? null : name;
  show(next);
  write('panel', next);
  if (next !== null && !stays) panel.querySelector('[aria-current]')?.focus();
}

export function startPanel(aside, header) {
  panel = aside;
  bar = header;
  form = settingsForm();
  figures = serverFigures();
  models.addEventListener('listed', () => form.refresh());
  models.addEventListener('chosen', () => form.refresh());
  show(matchMedia('(max-width: 1150px)').matches ? null : read('panel', null));
}
