// SPDX-License-Identifier: Apache-2.0
// Markdown of a model, who is not trusted: HTML in it is shown as text (a few harmless tags aside), images are links, and
// DOMPurify looks at the rest.
import {marked} from './vendor/marked.js';
import DOMPurify from './vendor/dompurify.js';
import {codeBlock} from './code_block.js';

const kHarmless = /<\/?(?:br|sub|sup|kbd|b|i|em|strong|u|s|del|mark|details|summary)\s*\/?>/gi;
const kClean = {
  RETURN_DOM_FRAGMENT: true, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
  ALLOWED_TAGS: ['p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'pre', 'code', 'a', 'em', 'strong', 'del', 'b', 'i',
                 'u', 's', 'sub', 'sup', 'kbd', 'mark', 'details', 'summary', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'div'],
  ALLOWED_ATTR: ['href', 'title', 'start', 'align', 'class'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};
const kSigns = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};
const escaped = (text) => text.replace(/[&<>"']/g, (sign) => kSigns[sign]);
const isHarmless = (html) => !html.replace(kHarmless, '').includes('<');

const renderer = {
  html: (html) => isHarmless(html) ? html : escaped(html),
  image: (href, title, text) => `<a href="${escaped(href ?? '')}">${escaped(text || href || 'image')}</a>`,
  checkbox: (isDone) => isDone ? '☑ ' : '☐ ',
};
marked.use({gfm: true, breaks: true, mangle: false, headerIds: false, renderer,
            // Definitions of links are text: blocks that are rendered do not change with what comes later.
            tokenizer: {def: () => undefined}});

export const blocksOf = (text) => marked.lexer(text);

/// Nodes of blocks.
export function nodesOf(blocks) {
  const tokens = blocks.map((block) => block.type === 'html' && !isHarmless(block.raw)
    ? {type: 'code', raw: block.raw, lang: 'html', text: block.raw.trimEnd()} : block);
  const fragment = DOMPurify.sanitize(marked.parser(tokens), kClean);
  for (const link of fragment.querySelectorAll('a')) {
    // What has lost its target is no link.
    if (!link.hasAttribute('href')) link.replaceWith(...link.childNodes);
    link.target = '_blank';
    link.rel = 'noopener noreferrer nofollow';
  }
  for (const code of fragment.querySelectorAll('pre > code')) {
    const language = code.className.match(/^language-(\S+)/)?.[1] ?? '';
    code.parentElement.replaceWith(codeBlock(code.textContent.replace(/\n$/, ''), language).element);
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = document.createElement('div');
    box.className = 'wide';
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', 'Table');
    table.replaceWith(box);
    box.append(table);
  }
  return fragment;
}
