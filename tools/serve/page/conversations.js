// SPDX-License-Identifier: Apache-2.0
// The history at the side: conversations by their day, search, export and import.
import {make, iconButton, button, confirmed, saveFile, toast} from './dom.js';
import {loadAll, save, forget, forgetAll} from './store.js';
import {isConversation, newId, pathOf} from './tree.js';
import {runOf, runs} from './runs.js';

const kMostImported = 64 << 20;
const kDay = 86_400_000;
let known = [];  // newest first
let opened = null;
let open = () => {};

function dayOf(time) {
  const days = Math.floor((new Date().setHours(23, 59, 59, 999) - time) / kDay);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  return days < 7 ? 'This week' : new Date(time).toLocaleDateString(undefined, {month: 'long', year: 'numeric'});
}
const titleOf = (conversation) => conversation.title || pathOf(conversation)[0]?.content.slice(0, 60) || 'Empty conversation';

let list, search;

export function conversationById(id) {
  return known.find((conversation) => conversation.id === id) ?? null;
}
/// Puts it in front, and stores it.
export function keep(conversation) {
  known = [conversation, ...known.filter((each) => each.id !== conversation.id)];
  show();
  return save(conversation).catch((error) => toast(error.message, true));
}
export function markOpened(id) {
  opened = id;
  show();
}

function rename(conversation, item) {
  const leave = (isSaved) => {
    if (isSaved) conversation.title = input.value.trim();
    keep(conversation);
  };
  const input = make('input', {type: 'text', 'aria-label': 'Title', value: titleOf(conversation), onblur: () => leave(true), onkeydown: (event) => {
    event.stopPropagation();
    if (event.key === 'Enter') input.blur();
    if (event.key === 'Escape') show();
  }});
  item.replaceChildren(input);
  input.select();
}

async function drop(conversation) {
  if (!await confirmed('Delete conversation', `"${titleOf(conversation)}" and all its branches will be gone.`, 'Delete')) return;
  runOf(conversation)?.stop();
  known = known.filter((each) => each !== conversation);
  await forget(conversation.id).catch((error) => toast(error.message, true));
  show();
  if (opened === conversation.id) open(null);
}

function show() {
  if (!list) return;
  const wanted = search.value.trim().toLowerCase();
  const found = known.filter((each) => wanted === '' || titleOf(each).toLowerCase().includes(wanted) ||
    Object.values(each.nodes).some((node) => node.content.toLowerCase().includes(wanted)));
  const groups = new Map();
  for (const conversation of found) {
    const item = make('li', {class: conversation.id === opened ? 'now' : ''});
    const link = make('button', {type: 'button', class: 'conversation', 'aria-current': conversation.id === opened ? 'page' : null, onclick: () => open(conversation.id)},
      runOf(conversation) ? make('span', {class: 'dot', role: 'img', 'aria-label': 'is being answered'}) : null, titleOf(conversation));
    item.append(link, iconButton('edit', `Rename ${titleOf(conversation)}`, () => rename(conversation, item)),
      iconButton('bin', `Delete ${titleOf(conversation)}`, () => drop(conversation)));
    const day = dayOf(conversation.updated);
    if (!groups.has(day)) groups.set(day, []);
    groups.get(day).push(item);
  }
  list.replaceChildren(...[...groups].flatMap(([day, items]) => [make('h3', {}, day), make('ul', {}, ...items)]));
  if (found.length === 0) list.append(make('p', {class: 'soft'}, wanted ? 'None has these words.' : 'Conversations stay in this browser.'));
}

function exportAll() {
  saveFile(`sinter-conversations-${new Date().toISOString().slice(0, 10)}.json`, 'application/json', JSON.stringify({format: 'sinter-conversations', version: 1, conversations: known}, null, 1));
}

async function importFile(file) {
  try {
    if (file.size > kMostImported) throw new Error('the file is larger than 64 MiB');
    const data = JSON.parse(await file.text());
    if (data?.format !== 'sinter-conversations' || !Array.isArray(data.conversations)) throw new Error('it is no export of this page');
    const bad = data.conversations.findIndex((each) => !isConversation(each));
    if (bad >= 0) throw new Error(`its conversation ${bad + 1} is damaged`);
    for (const conversation of data.conversations) {
      if (conversationById(conversation.id)) conversation.id = newId();
      known.push(conversation);
      await save(conversation);
    }
    known.sort((a, b) => b.updated - a.updated);
    show();
    toast(`${data.conversations.length} conversations were imported`);
  } catch (error) {
    toast(`'${file.name}' cannot be imported: ${error.message}`, true);
  }
}

/// `onopen(id)`: null for a new one.
export async function startHistory(nav, onopen) {
  open = onopen;
  search = make('input', {type: 'search', placeholder: 'Search', 'aria-label': 'Search conversations', id: 'search-history', oninput: show});
  list = make('div', {class: 'conversations'});
  const file = make('input', {type: 'file', accept: '.json,application/json', class: 'unseen', tabindex: -1, 'aria-label': 'File to import', onchange: () => {
    if (file.files[0]) importFile(file.files[0]);
    file.value = '';
  }});
  nav.append(make('div', {class: 'history-head'}, make('img', {src: 'page/icon.svg', alt: '', width: 26, height: 26}), make('h1', {}, 'Sinter'),
    iconButton('close', 'Close the conversations', () => document.body.classList.remove('shows-history'), {class: 'icon-button narrow-only'})),
    make('button', {type: 'button', class: 'new', id: 'new-chat', title: 'Ctrl+Shift+O', onclick: () => open(null)}, 'New conversation'), search, list,
    make('div', {class: 'history-foot'}, button('Export', exportAll), button('Import', () => file.click()), file, button('Delete all', async () => {
      if (!await confirmed('Delete all conversations', `All ${known.length} conversations in this browser will be gone. Export keeps a copy.`, 'Delete all')) return;
      for (const conversation of known) runOf(conversation)?.stop();
      known = [];
      await forgetAll().catch((error) => toast(error.message, true));
      show();
      open(null);
    })));
  runs.addEventListener('changed', show);
  known = (await loadAll().catch(() => [])).sort((a, b) => b.updated - a.updated);
  show();
}
