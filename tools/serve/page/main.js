// SPDX-License-Identifier: Apache-2.0
// The frame: which model, which view, what is beside it, keys. The address says which conversation is open.
import {make, iconButton, button, openDialog, toast} from './dom.js';
import {askForKey} from './api.js';
import {conversationById, startHistory} from './conversations.js';
import {allModels, chooseModel, currentModel, does, loadModels, modelOf, models, viewsOf} from './models.js';
import {startPanel, togglePanel} from './panel.js';
import {read, write} from './store.js';

const kKeys = [['Enter', 'send the message'], ['Shift+Enter', 'begin a line'], ['Esc', 'stop the answer, close what is open'], ['/', 'write a message'],
               ['Ctrl+Shift+O', 'new conversation'], ['Ctrl+K', 'search conversations'], ['Ctrl+B', 'conversations at the side'],
               ['Ctrl+,', 'settings'], ['Ctrl+Shift+L', 'light, dark, or as the system'], ['?', 'these keys']];
const kThemes = ['auto', 'light', 'dark'];
const view = document.getElementById('view'), bar = document.getElementById('bar'), nav = document.getElementById('history');
const isNarrow = matchMedia('(max-width: 860px)');

let shown = null;   // {name, module}
let showing = 0;    // the last of what is to be shown
let select, tabs, themeButton;

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  write('theme', theme);
  themeButton.replaceWith(themeButton = makeThemeButton());
}
function makeThemeButton() {
  const theme = read('theme', 'auto');
  const next = kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length];
  return iconButton({auto: 'auto', light: 'sun', dark: 'moon'}[theme], `Colours: ${theme}. Change to ${next}`, () => {
    setTheme(next);
    themeButton.focus();
  }, {id: 'theme'});
}

function toggleHistory(isShown) {
  const name = isNarrow.matches ? 'shows-history' : 'hides-history';
  const now = document.body.classList.toggle(name, isShown === undefined ? undefined : isShown === isNarrow.matches);
  bar.querySelector('#toggle-history').setAttribute('aria-expanded', String(now === isNarrow.matches));
  if (now && isNarrow.matches) nav.querySelector('button')?.focus();
}

const conversationInAddress = () => location.hash.match(/^#chat\/([\w-]+)$/)?.[1] ?? null;

async function showView(name) {
  const model = currentModel();
  const views = model ? viewsOf(model) : [];
  const wanted = views.find((each) => each.name === name) ?? views[0];
  tabs.replaceChildren(...(views.length > 1 ? views.map((each) => button(each.title, () => {
    write(`view.${model.id}`, each.name);
    showView(each.name);
  }, {'aria-current': each === wanted ? 'true' : null})) : []));
  if (!wanted) {
    shown?.module.unmount?.();
    shown = null;
    view.replaceChildren(make('div', {class: 'hello'}, make('h2', {}, 'No model is loaded'), make('p', {class: 'soft'}, 'The server has none that answers now.'),
      button('Look again', () => start().catch(() => {}), {class: 'main'})));
    return;
  }
  if (shown?.name === wanted.name) {
    // The same view of another model.
    return shown.module.changeModel?.();
  }
  const mine = ++showing;
  const module = await wanted.load();
  if (mine !== showing) return;
  shown?.module.unmount?.();
  shown = {name: wanted.name, module};
  document.body.dataset.view = wanted.name;
  module.mount(view, conversationInAddress());
}
const showUsualView = () => showView(read(`view.${currentModel()?.id}`, undefined));

async function openConversation(id) {
  if (isNarrow.matches) toggleHistory(false);
  history.pushState(null, '', id ? `#chat/${id}` : location.pathname + location.search);
  if (shown?.name !== 'chat') {
    if (!does(currentModel(), 'chat')) {
      const model = modelOf(conversationById(id)?.model) ?? allModels().find((each) => does(each, 'chat'));
      if (model) chooseModel(model.id);
    }
    await showView('chat');
  }
  if (shown?.name === 'chat') shown.module.open(id);
  else toast('No model with a chat template is loaded', true);
}

function fillSelect() {
  select.replaceChildren(...allModels().map((model) => make('option', {value: model.id}, model.ready === false ? `${model.id} (not ready)` : model.id)));
  if (currentModel()) select.value = currentModel().id;
  select.disabled = allModels().length === 0;
}

function showKeys() {
  openDialog('Keys', [make('dl', {class: 'keys'}, ...kKeys.flatMap(([key, what]) => [make('dt', {}, ...key.split('+').flatMap((each, i) => i ? ['+', make('kbd', {}, each)] : [make('kbd', {}, each)])), make('dd', {}, what)]))],
    [{text: 'Close', kind: 'main', value: () => null}]);
}

function onKey(event) {
  const isTyping = event.target.closest?.('input, textarea, select, dialog[open]');
  const isControl = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  const act = isControl && event.shiftKey ? {o: () => openConversation(null), l: () => setTheme(kThemes[(kThemes.indexOf(read('theme', 'auto')) + 1) % 3])}[key]
    : isControl ? {k: () => { toggleHistory(true); document.getElementById('search-history').focus(); }, b: () => toggleHistory(), ',': () => togglePanel('settings')}[key]
    : isTyping ? undefined : {'/': () => shown?.module.focus?.(), '?': showKeys}[key];
  if (act) {
    event.preventDefault();
    return act();
  }
  if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return;
  if (shown?.module.stop?.()) return;
  if (document.body.classList.contains('shows-history')) {
    toggleHistory(false);
    bar.querySelector('#toggle-history').focus();
  } else if (isNarrow.matches && document.body.classList.contains('shows-panel')) togglePanel();
}

async function start() {
  await loadModels();
  fillSelect();
  await showUsualView();
}

select = make('select', {id: 'model', 'aria-label': 'Model', onchange: () => chooseModel(select.value)});
tabs = make('div', {class: 'tabs', role: 'group', 'aria-label': 'Views'});
themeButton = makeThemeButton();
bar.append(iconButton('menu', 'Conversations', () => toggleHistory(), {id: 'toggle-history', 'aria-controls': 'history', 'aria-expanded': String(!isNarrow.matches)}), select, tabs, make('span', {class: 'gap'}),
  iconButton('key', 'API key', async () => { if (await askForKey('Sent with each request, as a bearer token.')) start().catch((error) => toast(error.message, true)); }, {class: 'icon-button wide-only'}),
  iconButton('keyboard', 'Keys', showKeys, {class: 'icon-button wide-only'}), themeButton,
  iconButton('sliders', 'Settings', () => togglePanel('settings'), {id: 'open-settings', 'aria-controls': 'panel'}),
  iconButton('chart', 'Server', () => togglePanel('server'), {id: 'open-server', 'aria-controls': 'panel'}));
document.getElementById('shade').addEventListener('click', () => {
  document.body.classList.remove('shows-history');
  if (document.body.classList.contains('shows-panel')) togglePanel();
});
document.addEventListener('keydown', onKey);
addEventListener('popstate', () => { if (shown?.name === 'chat') shown.module.open(conversationInAddress()); });
models.addEventListener('chosen', () => {
  select.value = currentModel().id;
  showUsualView();
});
startPanel(document.getElementById('panel'), bar);
await startHistory(nav, openConversation);
start().catch((error) => {
  toast(error.message, true);
  showView();
});
