// SPDX-License-Identifier: Apache-2.0
// A block of code: its language, a button that copies it, colours by Prism.
import Prism from './vendor/prism.js';
import {make, iconButton, copyText} from './dom.js';

const kNames = {sh: 'bash', shell: 'bash', zsh: 'bash', console: 'bash', py: 'python', python3: 'python', js: 'javascript', node: 'javascript', ts: 'typescript',
                'c++': 'cpp', cc: 'cpp', cuda: 'cpp', cu: 'cpp', h: 'c', hpp: 'cpp', 'c#': 'csharp', cs: 'csharp', rs: 'rust', yml: 'yaml', md: 'markdown',
                rb: 'ruby', kt: 'kotlin', dockerfile: 'docker', make: 'makefile', golang: 'go', htm: 'html', jsonc: 'json', ps1: 'powershell', jl: 'julia', hs: 'haskell'};
const kMostColoured = 100_000;  // characters: longer code stays plain

function nodesOfTokens(tokens) {
  if (typeof tokens === 'string') return [tokens];
  if (!Array.isArray(tokens)) {
    const alias = Array.isArray(tokens.alias) ? tokens.alias.join(' ') : tokens.alias ?? '';
    return [make('span', {class: `token ${tokens.type} ${alias}`.trim()}, ...nodesOfTokens(tokens.content))];
  }
  return tokens.flatMap(nodesOfTokens);
}

/// Colours a `code` element.
export function colour(code, text, language) {
  const name = language.toLowerCase();
  const grammar = Prism.languages[kNames[name] ?? name];
  // Prism's table has functions, too.
  if (!grammar || typeof grammar !== 'object' || text.length > kMostColoured) return;
  code.replaceChildren(...nodesOfTokens(Prism.tokenize(text, grammar)));
}

/// {element, add, finish}: `add` goes on with a text that still comes, `finish` colours it.
export function codeBlock(text, language, isOpen = false) {
  const node = document.createTextNode(text);
  const code = make('code', {}, node);
  const copy = iconButton('copy', 'Copy the code', () => copyText(code.textContent, copy));
  const element = make('div', {class: 'code', role: 'group', 'aria-label': language ? `Code, ${language}` : 'Code'},
    make('div', {class: 'code-head'}, make('span', {}, language || 'text'), copy), make('pre', {tabindex: 0}, code));
  if (!isOpen) colour(code, text, language);
  return {element, add: (more) => node.appendData(more), finish: (whole) => { node.data = whole; colour(code, whole, language); }};
}
