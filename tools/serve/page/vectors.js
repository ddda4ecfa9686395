// SPDX-License-Identifier: Apache-2.0
// Vectors of texts by /v1/embeddings, of length 1. What is known is not asked for again.
import {getJson} from './api.js';

const kAtOnce = 64;
const kMostKept = 20_000;
const known = new Map();

/// A vector for each text; `onprogress(done, all)`.
export async function vectorsOf(model, texts, {signal, onprogress = () => {}} = {}) {
  const keyOf = (text) => `${model.id}\n${model.created}\n${text}`;
  const wanted = [...new Set(texts)].filter((text) => !known.has(keyOf(text)));
  if (known.size + wanted.length > kMostKept) known.clear();
  const missing = [...new Set(texts)].filter((text) => !known.has(keyOf(text)));
  for (let i = 0; i < missing.length; i += kAtOnce) {
    onprogress(i, missing.length);
    const some = missing.slice(i, i + kAtOnce);
    const input = model.prompt === 'ids' ? some.map((text) => text.trim().split(/[\s,]+/).map(Number)) : some;
    const {data} = await getJson('v1/embeddings', {body: {model: model.id, input, encoding_format: 'float'}, signal});
    for (const each of data) known.set(keyOf(some[each.index]), Float32Array.from(each.embedding));
  }
  return texts.map((text) => known.get(keyOf(text)));
}

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; ++i) sum += a[i] * b[i];
  return sum;
}

export const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');
