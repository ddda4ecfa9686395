// SPDX-License-Identifier: Apache-2.0
// What requests are made with: a row for each number, then text, tools and form of answers.
import {make, field, button} from './dom.js';
import {askForKey} from './api.js';
import {currentModel} from './models.js';
import {read, write} from './store.js';

export const kNumbers = [
  {name: 'temperature', label: 'Temperature', step: 0.1, min: 0, max: 100, hint: '0: the likeliest token'},
  {name: 'top_p', label: 'Top p', step: 0.05, min: 0, max: 1},
  {name: 'top_k', label: 'Top k', step: 1, min: -1, hint: '0: all tokens'},
  {name: 'min_p', label: 'Min p', step: 0.01, min: 0, max: 1},
  {name: 'repetition_penalty', label: 'Repetition penalty', step: 0.05, min: 0.001, max: 1000},
  {name: 'presence_penalty', label: 'Presence penalty', step: 0.1, min: -2, max: 2},
  {name: 'frequency_penalty', label: 'Frequency penalty', step: 0.1, min: -2, max: 2},
  {name: 'max_tokens', label: 'Most tokens', step: 1, min: 1},
  {name: 'seed', label: 'Seed', step: 1, hint: 'Same seed, same text'},
];
const kToolExample = [{type: 'function', function: {name: 'get_weather', description: 'The weather of a place now',
  parameters: {type: 'object', properties: {city: {type: 'string'}, unit: {enum: ['celsius', 'fahrenheit']}}, required: ['city']}}}];
const kSchemaExample = {type: 'object', properties: {name: {type: 'string'}, age: {type: 'integer'}}, required: ['name', 'age']};
export const kNoSettings = {system: '', stop: '', logprobs: false, tools: '', toolChoice: 'auto', form: 'text', schema: '', regex: ''};

export const settings = new EventTarget();
let now = {...kNoSettings, ...read('settings', {})};

export const currentSettings = () => now;
export function setSettings(changes) {
  now = {...now, ...changes};
  write('settings', now);
  settings.dispatchEvent(new Event('changed'));
}
/// Those of a conversation that is opened.
export function useSettings(given) {
  now = {...kNoSettings, ...given};
  settings.dispatchEvent(new Event('replaced'));
}

function parsed(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what}: ${error.message}`);
  }
}

export function toolsOf(given) {
  if (!given.tools.trim()) return [];
  const tools = parsed(given.tools, 'The tools are no JSON');
  if (!Array.isArray(tools) || !tools.every((tool) => tool?.type === 'function' && typeof tool.function?.name === 'string'))
    throw new Error('The tools are no list of {"type": "function", "function": {"name": ..}}');
  return tools;
}

/// Fields of a request. Throws an Error for JSON that is none.
export function requestFields(given, isChat) {
  const fields = {};
  for (const {name} of kNumbers) if (given[name] !== undefined && given[name] !== null) fields[name] = given[name];
  const stops = given.stop.split('\n').filter((line) => line !== '').map((line) => line.replace(/\\n/g, '\n'));
  if (stops.length > 0) fields.stop = stops;
  if (given.form === 'json') fields.response_format = {type: 'json_object'};
  if (given.form === 'schema')
    fields.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: parsed(given.schema || '{}', 'The schema is no JSON'), strict: true}};
  if (given.form === 'regex') fields.structured_outputs = {regex: given.regex};
  if (!isChat) return given.logprobs ? {...fields, logprobs: 5} : fields;
  if (given.logprobs) Object.assign(fields, {logprobs: true, top_logprobs: 5});
  const tools = toolsOf(given);
  if (tools.length === 0) return fields;
  fields.tools = tools;
  if (given.toolChoice !== 'auto')
    fields.tool_choice = ['none', 'required'].includes(given.toolChoice) ? given.toolChoice : {type: 'function', function: {name: given.toolChoice}};
  return fields;
}

function numberField(row) {
  const usual = currentModel()?.sampling?.[row.name];
  const input = make('input', {type: 'number', step: row.step, min: row.min, max: row.max, inputmode: 'decimal', id: `set-${row.name}`,
    value: now[row.name] ?? '', placeholder: usual === undefined ? 'auto' : String(Number(usual.toPrecision(6))),
    onchange: () => input.reportValidity() && setSettings({[row.name]: input.value === '' ? undefined : Number(input.value)})});
  return field(row.label, input, row.hint);
}

function jsonField(name, label, example, check) {
  const bad = make('small', {class: 'bad-text', role: 'status'});
  const area = make('textarea', {class: 'code-area', rows: 6, spellcheck: 'false', value: now[name], id: `set-${name}`, onchange: () => {
    setSettings({[name]: area.value});
    tell();
  }});
  const tell = () => {
    bad.textContent = '';
    try {
      if (area.value.trim()) check(area.value);
    } catch (error) { bad.textContent = error.message; }
  };
  tell();
  const fill = button('Insert an example', () => {
    area.value = JSON.stringify(example, null, 2);
    area.dispatchEvent(new Event('change'));
  }, {class: 'link'});
  return make('div', {}, field(label, area), make('div', {class: 'row'}, fill), bad);
}

function choice(name, label, options) {
  const select = make('select', {id: `set-${name}`, onchange: () => setSettings({[name]: select.value})},
    ...options.map(([value, text]) => make('option', {value}, text)));
  select.value = options.some(([value]) => value === now[name]) ? now[name] : options[0][0];
  return field(label, select);
}

function group(title, isOpen, ...content) {
  return make('details', {class: 'group', open: isOpen}, make('summary', {}, title), ...content);
}

/// The form. It is made anew where what it has depends on what was chosen.
export function settingsForm() {
  const box = make('div', {class: 'settings'});
  const build = () => {
    const isChat = currentModel()?.tasks?.includes('chat');
    const system = make('textarea', {rows: 4, id: 'set-system', value: now.system, placeholder: 'You are a helpful assistant.', onchange: () => setSettings({system: system.value})});
    const stop = make('textarea', {rows: 2, id: 'set-stop', value: now.stop, onchange: () => setSettings({stop: stop.value})});
    const logprobs = make('input', {type: 'checkbox', id: 'set-logprobs', checked: now.logprobs, onchange: () => setSettings({logprobs: logprobs.checked})});
    let names = [];
    try {
      names = toolsOf(now).map((tool) => tool.function.name);
    } catch { /* said below the field */ }
    const regex = make('input', {type: 'text', class: 'code-area', id: 'set-regex', value: now.regex, spellcheck: 'false', onchange: () => setSettings({regex: regex.value})});
    box.replaceChildren(...[
      isChat && field('System prompt', system),
      group('Sampling', true, make('div', {class: 'numbers'}, ...kNumbers.map(numberField)), field('Stop texts, one a line', stop, '\\n stands for a new line'),
        make('div', {class: 'row'}, logprobs, make('label', {for: 'set-logprobs'}, 'Show probabilities of tokens'))),
      group('Form of the answer', now.form !== 'text', choice('form', 'Answer', [['text', 'Text'], ['json', 'JSON object'], ['schema', 'JSON by a schema'], ['regex', 'Regular expression']]),
        now.form === 'schema' && jsonField('schema', 'JSON schema', kSchemaExample, (text) => parsed(text, 'The schema is no JSON')),
        now.form === 'regex' && field('Regular expression', regex)),
      isChat && group('Tools', now.tools.trim() !== '', jsonField('tools', 'Functions', kToolExample, (text) => toolsOf({tools: text})),
        choice('toolChoice', 'Use', [['auto', 'When the model wants to'], ['none', 'Never'], ['required', 'Always'], ...names.map((name) => [name, name])])),
      make('div', {class: 'row end'}, button('API key', () => askForKey('Sent with each request, as a bearer token.')), button('Reset all', () => {
        now = {...kNoSettings};
        setSettings({});
        build();
      }))].filter(Boolean));
  };
  build();
  settings.addEventListener('replaced', build);
  settings.addEventListener('changed', () => {
    // Fields that come and go; what is being typed in stays.
    const focused = document.activeElement?.id;
    if (!['set-form', 'set-tools'].includes(focused) && !box.contains(document.activeElement)) return;
    build();
    document.getElementById(focused)?.focus();
  });
  return {element: box, refresh: build};
}
