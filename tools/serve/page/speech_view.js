// SPDX-License-Identifier: Apache-2.0
// Speech to text: of a file, or of the microphone.
import {make, button, field, iconButton, copyText, saveFile} from './dom.js';
import {getJson} from './api.js';
import {currentModel} from './models.js';
import {Recorder, soundFile} from './sound.js';

let note, result, language, task, player, recordButton, drop;
let recorder = null, controller = null, url = null;

const clock = (seconds, separator) => {
  const all = Math.round(seconds * 1000);
  const two = (value) => String(value).padStart(2, '0');
  return `${two(Math.floor(all / 3.6e6))}:${two(Math.floor(all / 60000) % 60)}:${two(Math.floor(all / 1000) % 60)}${separator}${String(all % 1000).padStart(3, '0')}`;
};
const subtitles = (segments) => segments.map((each, i) => `${i + 1}\n${clock(each.start, ',')} --> ${clock(each.end, ',')}\n${each.text.trim()}\n`).join('\n');

function tell(text, isBad = false) {
  note.textContent = text;
  note.className = isBad ? 'bad-text' : 'figures';
}

async function transcribe(file) {
  controller?.abort();
  const mine = controller = new AbortController();
  result.replaceChildren();
  try {
    tell('Reading the sound');
    const sound = await soundFile(file);
    if (url) URL.revokeObjectURL(url);
    player.src = url = URL.createObjectURL(sound);
    player.hidden = false;
    tell('Listening');
    const form = new FormData();
    form.append('model', currentModel().id);
    form.append('response_format', 'verbose_json');
    if (language.value.trim()) form.append('language', language.value.trim());
    form.append('file', sound, sound.name);
    const began = performance.now();
    const said = await getJson(`v1/audio/${task.value}`, {body: form, signal: mine.signal});
    const seconds = (performance.now() - began) / 1000;
    tell(`${said.language ? `${said.language}, ` : ''}${said.duration ? `${said.duration.toFixed(1)} s of sound ` : ''}in ${seconds.toFixed(1)} s`);
    const copy = iconButton('copy', 'Copy the text', () => copyText(said.text, copy));
    result.replaceChildren(make('p', {class: 'transcript'}, said.text.trim()), make('div', {class: 'row'}, copy,
      button('Save as SRT', () => saveFile('transcript.srt', 'text/plain', subtitles(said.segments ?? [])))),
      make('ol', {class: 'segments'}, ...(said.segments ?? []).map((each) => make('li', {}, make('button', {type: 'button', class: 'link', 'aria-label': `Play from ${clock(each.start, '.')}`, onclick: () => {
        player.currentTime = each.start;
        player.play();
      }}, clock(each.start, '.')), make('span', {}, each.text.trim())))));
  } catch (error) {
    if (error.name !== 'AbortError') tell(error.message, true);
  }
  if (controller === mine) controller = null;
}

async function toggleRecording() {
  if (recorder) {
    const file = await recorder.stop();
    recorder = null;
    recordButton.lastChild.data = 'Record';
    recordButton.classList.remove('bad');
    return transcribe(file);
  }
  if (!Recorder.isThere()) return tell('The browser gives pages a microphone at https or localhost alone.', true);
  const next = new Recorder();
  try {
    await next.start();
  } catch (error) {
    return tell(`No microphone: ${error.message}`, true);
  }
  recorder = next;
  recordButton.lastChild.data = 'Stop and transcribe';
  recordButton.classList.add('bad');
  tell('Recording');
}

export function mount(view) {
  const file = make('input', {type: 'file', id: 'sound', accept: 'audio/*,video/*,.flac,.ogg', onchange: () => file.files[0] && transcribe(file.files[0])});
  language = make('input', {type: 'text', id: 'language', maxlength: 8, placeholder: 'as heard', size: 9});
  task = make('select', {id: 'task'}, make('option', {value: 'transcriptions'}, 'Write what is said'), make('option', {value: 'translations'}, 'Translate to English'));
  note = make('p', {class: 'figures', id: 'note', role: 'status'});
  player = make('audio', {controls: true, hidden: true, 'aria-label': 'The sound'});
  result = make('div', {id: 'result'});
  recordButton = button('Record', toggleRecording, {id: 'record'});
  drop = make('div', {class: 'drop', ondragover: (event) => { event.preventDefault(); drop.classList.add('over'); }, ondragleave: () => drop.classList.remove('over'),
    ondrop: (event) => {
      event.preventDefault();
      drop.classList.remove('over');
      if (event.dataTransfer.files[0]) transcribe(event.dataTransfer.files[0]);
    }}, field('File of sound, or drop one here', file), recordButton);
  view.replaceChildren(make('div', {class: 'page-column'}, make('h2', {}, 'Speech to text'), drop,
    make('div', {class: 'row'}, field('Task', task), field('Language, as en', language)), note, player, result));
}
export const changeModel = () => { unmount(); mount(document.getElementById('view')); };
export function unmount() {
  controller?.abort();
  recorder?.stop();
  recorder = null;
}
export function stop() {
  const isRunning = controller !== null;
  controller?.abort();
  if (isRunning) tell('Stopped');
  return isRunning;
}
export const focus = () => document.getElementById('sound').focus();
