// SPDX-License-Identifier: Apache-2.0
// The server's API. Paths are relative to the page, which a proxy may have put below a prefix.
import {make, field, openDialog} from './dom.js';

const kKey = 'sinter.key';
let key = readKey();

function readKey() {
  try {
    return sessionStorage.getItem(kKey) ?? localStorage.getItem(kKey) ?? '';
  } catch { return ''; }
}

export const hasKey = () => key !== '';

let asked = null;
/// Asks for the key, once for all requests that want it. Whether there is a new one.
export function askForKey(why = 'This server wants an API key.') {
  asked ??= (async () => {
    const input = make('input', {type: 'password', autocomplete: 'off', required: true, value: key});
    const keeps = make('input', {type: 'checkbox', id: 'keep-key'});
    const given = await openDialog('API key', [make('p', {}, why), field('Key', input),
      make('div', {class: 'row'}, keeps, make('label', {for: 'keep-key'}, 'Remember it in this browser'))],
      [{text: 'Cancel', value: () => null}, {text: 'Use it', kind: 'main', value: () => input.value.trim()}]);
    asked = null;
    if (given === null) return false;
    key = given;
    try {
      sessionStorage.setItem(kKey, key);
      localStorage.removeItem(kKey);
      if (keeps.checked) localStorage.setItem(kKey, key);
    } catch { /* it holds until the page is left */ }
    return true;
  })();
  return asked;
}

/// A refusal of the server's.
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function refusalOf(answer) {
  let text = `the server answered ${answer.status}`;
  try {
    const body = await answer.json();
    text = body.error?.message ?? body.error ?? text;
  } catch { /* no JSON: a proxy's page */ }
  return new Refusal(answer.status, text);
}

/// `body`: an object, which goes as JSON; FormData; or bytes with `headers` of their own.
export async function send(path, {body, headers = {}, signal, quiet = false} = {}) {
  while (true) {
    const all = {...headers};
    if (key) all.Authorization = `Bearer ${key}`;
    let data = body;
    if (body !== undefined && !(body instanceof FormData) && !(body instanceof Uint8Array)) {
      data = JSON.stringify(body);
      all['Content-Type'] = 'application/json';
    }
    const answer = await fetch(path, {method: body === undefined ? 'GET' : 'POST', headers: all, body: data, signal})
      .catch((error) => {
        throw error.name === 'AbortError' ? error : new Refusal(0, 'the server cannot be reached');
      });
    if (answer.ok) return answer;
    if (answer.status === 401 && !quiet && await askForKey(key ? 'The server does not know this key.' : undefined)) continue;
    throw await refusalOf(answer);
  }
}

export const getJson = async (path, options) => (await send(path, options)).json();

/// The events of a stream.
export async function* stream(path, body, signal) {
  const answer = await send(path, {body, signal});
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    while (true) {
      const {done, value} = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith('data: ')) continue;
        const text = line.slice(6).trim();
        if (text === '[DONE]') return;
        const event = JSON.parse(text);
        if (event.error) throw new Refusal(500, event.error.message ?? String(event.error));
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
