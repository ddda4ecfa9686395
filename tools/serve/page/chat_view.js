// SPDX-License-Identifier: Apache-2.0
// A conversation with a model that has a chat template.
import {make, iconButton, toast, confirmed} from './dom.js';
import {Composer} from './composer.js';
import {conversationById, keep, markOpened} from './conversations.js';
import {Message} from './message.js';
import {currentModel, modelOf, chooseModel, models} from './models.js';
import {answer, runOf, runningConversation} from './runs.js';
import {currentSettings, useSettings, settings} from './settings.js';
import {write} from './store.js';
import {add, choose, newConversation, pathOf, remove} from './tree.js';

const kNear = 80;  // pixels from the end within which it follows the text
const kIdeas = ['Explain how attention caches speed up text generation', 'Write a C++ function that merges two sorted vectors', 'Make a table of the planets and their moons'];

let conversation = null;
let scroller, column, composer, toEnd;
let follows = true;

const scrollToEnd = () => { if (follows) scroller.scrollTop = scroller.scrollHeight; };

const acts = {
  edit(node, text) {
    if (runOf(conversation)) return toast('An answer is being generated: stop it first');
    const parent = node.parent || null;
    const message = node.role === 'assistant' ? {role: 'assistant', content: text, model: node.model, finish: 'edited'}
      : node.role === 'tool' ? {role: 'tool', content: text, callId: node.callId} : {role: 'user', content: text, images: node.images};
    const added = add(conversation, parent, message);
    if (node.role === 'assistant') {
      keep(conversation);
      return show();
    }
    begin(added.id);
  },
  again(node) {
    if (!runOf(conversation)) begin(node.parent);
  },
  choose(id) {
    choose(conversation, id);
    keep(conversation);
    show();
    scroller.querySelector(`[data-id="${id}"] .branches button:not(:disabled)`)?.focus();
  },
  async remove(node) {
    if (runOf(conversation)) return toast('An answer is being generated: stop it first');
    if (!await confirmed('Delete message', 'This message and all that follow it in this branch will be gone.', 'Delete')) return;
    remove(conversation, node.id);
    keep(conversation);
    show();
  },
  results(node, texts) {
    let parent = node.id;
    node.calls.forEach((call, i) => { parent = add(conversation, parent, {role: 'tool', content: texts[i], callId: call.id}).id; });
    begin(parent);
  },
};

/// Answers the message.
function begin(parent) {
  const model = currentModel();
  follows = true;
  try {
    conversation.model = model.id;
    conversation.settings = {...currentSettings()};
    answer(conversation, parent, model.id, conversation.settings);
  } catch (error) {
    toast(error.message, true);
  }
  keep(conversation);
  markOpened(conversation.id);
  history.replaceState(null, '', `#chat/${conversation.id}`);
  show();
}

function send(text, images) {
  if (runOf(conversation)) return false;
  const last = pathOf(conversation).at(-1);
  begin(add(conversation, last?.id ?? null, {role: 'user', content: text, ...(images.length > 0 && {images})}).id);
  return true;
}

function emptyState() {
  const model = currentModel();
  return make('div', {class: 'hello'}, make('h2', {}, 'What can I do for you?'),
    make('p', {class: 'soft'}, `${model.id}${model.max_model_len ? `, ${model.max_model_len.toLocaleString()} tokens of context` : ''}`),
    make('div', {class: 'ideas'}, ...kIdeas.map((idea) => make('button', {type: 'button', onclick: () => {
      composer.area.value = idea;
      composer.focus();
    }}, idea))));
}

function show() {
  const run = runOf(conversation);
  const path = pathOf(conversation);
  const messages = path.map((node) => new Message(conversation, node, acts, run?.node === node));
  column.replaceChildren(...(messages.length === 0 ? [emptyState()] : messages.map((message) => message.element)));
  composer.isRunning = run !== null;
  if (run) {
    const message = messages[path.indexOf(run.node)];
    run.listener = {
      add: (text, entries) => message?.add(text, entries),
      calls: () => message?.showCalls(),
      end: () => {
        message?.end();
        if (run.conversation !== conversation) return;
        composer.isRunning = false;
        keep(conversation);
      },
    };
  }
  requestAnimationFrame(scrollToEnd);
}

/// Shows the conversation of that id, or a new one.
export function open(id) {
  const stored = runningConversation(id) ?? conversationById(id);
  if (conversation && stored === conversation) return;
  const left = runOf(conversation);
  if (left) left.listener = null;
  conversation = stored ?? newConversation(null, null);
  if (stored) {
    useSettings(stored.settings);
    if (modelOf(stored.model)) chooseModel(stored.model);
  }
  markOpened(stored ? stored.id : null);
  follows = true;
  if (column) show();
  composer?.focus();
}

export function mount(view, id) {
  let top = 0;
  scroller = make('div', {class: 'scroller', tabindex: -1, onscroll: () => {
    // Only who goes up wants to stay there: the text also grows by itself.
    if (scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < kNear) follows = true;
    else if (scroller.scrollTop < top) follows = false;
    top = scroller.scrollTop;
    toEnd.hidden = follows;
  }}, column = make('div', {class: 'column', role: 'log', 'aria-live': 'off', 'aria-label': 'Messages'}));
  toEnd = iconButton('down', 'To the last message', () => {
    follows = true;
    scrollToEnd();
  }, {class: 'round to-end', hidden: true});
  composer = new Composer('Write a message', send, () => runOf(conversation)?.stop());
  view.replaceChildren(make('div', {class: 'chat'}, scroller, toEnd, composer.element));
  const sizes = new ResizeObserver(scrollToEnd);
  sizes.observe(column);
  sizes.observe(scroller);
  conversation = null;
  open(id);
  if (!column.hasChildNodes()) show();
}

export function unmount() {
  const run = runOf(conversation);
  if (run) run.listener = null;
  column = composer = conversation = null;
}
/// Esc: whether there was something to stop.
export function stop() {
  const run = runOf(conversation);
  run?.stop();
  return run !== null;
}
export const focus = () => composer?.focus();

settings.addEventListener('changed', () => write('settings', currentSettings()));
models.addEventListener('chosen', () => { if (column && pathOf(conversation).length === 0) show(); });
