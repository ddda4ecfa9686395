// SPDX-License-Identifier: Apache-2.0
// Elements, icons, short messages. Texts are never parsed as HTML.

/// An element with attributes, handlers (`on...`), and children: nodes or texts.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'disabled') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const kIcons = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 13l4 4L19 7',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  again: 'M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6',
  left: 'M15 5l-7 7 7 7',
  right: 'M9 5l7 7-7 7',
  bin: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M19 5l-1.5 1.5M6.5 17.5L5 19',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z',
  auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  sliders: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5',
  chart: 'M4 20V4M4 20h16M8 15l3-4 3 2 5-7',
  tool: 'M14.5 6.5a4 4 0 0 0 5 5L12 19l-3.5-3.5zM9 15l-5 5',
  braces: 'M9 4c-3 0-3 2-3 4s0 4-2 4c2 0 2 2 2 4s0 4 3 4M15 4c3 0 3 2 3 4s0 4 2 4c-2 0-2 2-2 4s0 4-3 4',
  dice: 'M5 5h14v14H5zM9 9h.01M15 15h.01M12 12h.01',
  close: 'M6 6l12 12M18 6L6 18',
  down: 'M12 4v12M6 11l6 6 6-6M5 20h14',
  up: 'M12 20V8M6 13l6-6 6 6M5 4h14',
  key: 'M14 10a4 4 0 1 0-4 4l2-1 1 2h2v2h2v2h4v-3l-7-7',
  keyboard: 'M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8',
  microphone: 'M12 4a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V7a3 3 0 0 0-3-3zM6 11a6 6 0 0 0 12 0M12 17v4',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M9 9h.01',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
};

export function icon(name) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', `icon icon-${name}`);
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(space, 'path');
  path.setAttribute('d', kIcons[name]);
  svg.append(path);
  return svg;
}

/// A button that shows an icon; `label` is its accessible name and its tooltip.
export function iconButton(name, label, onclick, attributes = {}) {
  return make('button', {type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...attributes}, icon(name));
}

export function button(text, onclick, attributes = {}) {
  return make('button', {type: 'button', onclick, ...attributes}, text);
}

/// A label above a field.
export function field(label, control, hint) {
  const id = control.id || `field-${nextId()}`;
  control.id = id;
  const parts = [make('label', {for: id}, label), control];
  if (hint) {
    parts.push(make('small', {id: `${id}-hint`}, hint));
    control.setAttribute('aria-describedby', `${id}-hint`);
  }
  return make('div', {class: 'field'}, ...parts);
}

let ids = 0;
export const nextId = () => ++ids;

/// Says something for a while; errors stay longer.
export function toast(text, isError = false) {
  const note = make('div', {class: isError ? 'toast bad' : 'toast'}, make('span', {}, text));
  const remove = () => note.remove();
  note.append(iconButton('close', 'Dismiss', remove));
  document.getElementById('toasts').append(note);
  setTimeout(remove, isError ? 12000 : 3500);
}

/// For screen readers alone.
export function speak(text) {
  document.getElementById('spoken').textContent = text;
}

export async function copyText(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https, or where the browser asks and is refused.
    const area = make('textarea', {class: 'unseen', value: text});
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  speak('Copied');
  if (!from) return;
  from.replaceChildren(icon('check'));
  setTimeout(() => from.replaceChildren(icon('copy')), 1200);
}

/// Hands the browser a file to save.
export function saveFile(name, type, ...parts) {
  const url = URL.createObjectURL(new Blob(parts, {type}));
  make('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/// A dialog with a form. What `value` gives of the button that was pressed; null if it was closed. The last one is that of Enter.
export function openDialog(title, content, buttons) {
  return new Promise((resolve) => {
    let result = null;
    const leave = (pressed) => {
      result = pressed.value();
      dialog.close();
    };
    const heading = `dialog-${nextId()}`;
    const form = make('form', {method: 'dialog', onsubmit: (event) => {
      event.preventDefault();
      leave(buttons.at(-1));
    }}, make('h2', {id: heading}, title), ...content, make('div', {class: 'row end'}, ...buttons.map((each) =>
      each === buttons.at(-1) ? make('button', {type: 'submit', class: each.kind}, each.text) : button(each.text, () => leave(each)))));
    const dialog = make('dialog', {'aria-labelledby': heading, onclose: () => { dialog.remove(); resolve(result); },
                                   onclick: (event) => { if (event.target === dialog) dialog.close(); }}, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const confirmed = async (title, text, yes) =>
  await openDialog(title, [make('p', {}, text)], [{text: 'Cancel', value: () => false}, {text: yes, kind: 'bad', value: () => true}]) === true;
