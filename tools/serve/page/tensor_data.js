// SPDX-License-Identifier: Apache-2.0
// Tensors: numbers as bytes and back, text and .npy files. A row for each type of the protocol.

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function halfOf(value) {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0];
  const sign = (bits >>> 16) & 0x8000, exponent = ((bits >>> 23) & 0xff) - 112;
  let mantissa = bits & 0x7fffff;
  if (exponent >= 31) return sign | 0x7c00 | (exponent === 143 && mantissa ? 0x200 : 0);
  let half = 0, shift = 13;
  if (exponent > 0) half = exponent << 10;
  else {
    if (exponent < -10) return sign;
    mantissa |= 0x800000;
    shift = 14 - exponent;
  }
  half |= mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1), middle = 1 << (shift - 1);
  // To nearest, ties to even; a carry goes on into the exponent.
  if (rest > middle || (rest === middle && (half & 1))) ++half;
  return sign | half;
}
function floatOfHalf(half) {
  const exponent = (half >> 10) & 31, mantissa = half & 1023, sign = half & 0x8000 ? -1 : 1;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1 + mantissa / 1024) * 2 ** (exponent - 15));
}
function brainOf(value) {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0];
  if (Number.isNaN(value)) return 0x7fc0;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
const floatOfBrain = (bits) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0];
const number = (text) => Number(text);
const wide = (text) => BigInt(typeof text === 'number' ? Math.trunc(text) : text);
const flag = (text) => /^(true|1)$/i.test(String(text)) ? 1 : 0;

/// {bytes, npy, get(view, at), set(view, at, value), parse(text), isWhole}
export const kTypes = {
  BOOL: {bytes: 1, npy: '|b1', get: (v, at) => v.getUint8(at) !== 0, set: (v, at, x) => v.setUint8(at, x), parse: flag, isWhole: true},
  INT8: {bytes: 1, npy: '|i1', get: (v, at) => v.getInt8(at), set: (v, at, x) => v.setInt8(at, x), parse: number, isWhole: true},
  UINT8: {bytes: 1, npy: '|u1', get: (v, at) => v.getUint8(at), set: (v, at, x) => v.setUint8(at, x), parse: number, isWhole: true},
  INT16: {bytes: 2, npy: '<i2', get: (v, at) => v.getInt16(at, true), set: (v, at, x) => v.setInt16(at, x, true), parse: number, isWhole: true},
  UINT16: {bytes: 2, npy: '<u2', get: (v, at) => v.getUint16(at, true), set: (v, at, x) => v.setUint16(at, x, true), parse: number, isWhole: true},
  INT32: {bytes: 4, npy: '<i4', get: (v, at) => v.getInt32(at, true), set: (v, at, x) => v.setInt32(at, x, true), parse: number, isWhole: true},
  UINT32: {bytes: 4, npy: '<u4', get: (v, at) => v.getUint32(at, true), set: (v, at, x) => v.setUint32(at, x, true), parse: number, isWhole: true},
  INT64: {bytes: 8, npy: '<i8', get: (v, at) => v.getBigInt64(at, true), set: (v, at, x) => v.setBigInt64(at, x, true), parse: wide, isWhole: true},
  UINT64: {bytes: 8, npy: '<u8', get: (v, at) => v.getBigUint64(at, true), set: (v, at, x) => v.setBigUint64(at, x, true), parse: wide, isWhole: true},
  FP16: {bytes: 2, npy: '<f2', get: (v, at) => floatOfHalf(v.getUint16(at, true)), set: (v, at, x) => v.setUint16(at, halfOf(x), true), parse: number},
  BF16: {bytes: 2, npy: null, get: (v, at) => floatOfBrain(v.getUint16(at, true)), set: (v, at, x) => v.setUint16(at, brainOf(x), true), parse: number},
  FP32: {bytes: 4, npy: '<f4', get: (v, at) => v.getFloat32(at, true), set: (v, at, x) => v.setFloat32(at, x, true), parse: number},
  FP64: {bytes: 8, npy: '<f8', get: (v, at) => v.getFloat64(at, true), set: (v, at, x) => v.setFloat64(at, x, true), parse: number},
};

export const countOf = (shape) => shape.reduce((product, dim) => product * dim, 1);

/// Bytes of `count` numbers, where `value(i)` gives each (a number, or a text).
export function bytesOf(datatype, count, value) {
  const type = kTypes[datatype];
  const bytes = new Uint8Array(count * type.bytes), data = view(bytes);
  for (let i = 0; i < count; ++i) {
    const given = value(i);
    const parsed = type.parse(given);
    if (Number.isNaN(parsed) && !/^nan$/i.test(String(given))) throw new Error(`'${given}' is no number`);
    if (type.isWhole && typeof parsed === 'number' && !Number.isInteger(parsed)) throw new Error(`'${given}' is no whole number`);
    type.set(data, i * type.bytes, parsed);
  }
  return bytes;
}
export function valuesOf(datatype, bytes, most = Infinity) {
  const type = kTypes[datatype], data = view(bytes);
  return Array.from({length: Math.min(most, bytes.length / type.bytes)}, (_, i) => type.get(data, i * type.bytes));
}

/// Numbers of a text: JSON lists, or lines of them with blanks, commas or tabs between. {values, shape}
export function parseNumbers(text) {
  const values = [];
  if (text.trim().startsWith('[')) {
    let data;
    // As texts, so that long whole numbers keep their digits.
    const quoted = text.replace(/-?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|NaN|-?Infinity/g, '"$&"');
    try {
      data = JSON.parse(quoted);
    } catch (error) { throw new Error(`The list is no JSON: ${error.message}`); }
    const shape = [];
    const walk = (each, depth) => {
      if (!Array.isArray(each)) return values.push(typeof each === 'boolean' ? String(each) : each);
      shape[depth] ??= each.length;
      if (shape[depth] !== each.length) throw new Error('Lists of the same depth differ in length');
      for (const one of each) walk(one, depth + 1);
    };
    walk(data, 0);
    return {values, shape};
  }
  const rows = text.split('\n').map((line) => line.trim().split(/[\s,;]+/).filter((each) => each !== '')).filter((row) => row.length > 0);
  for (const row of rows) values.push(...row);
  const isTable = rows.length > 1 && rows.every((row) => row.length === rows[0].length);
  return {values, shape: isTable ? [rows.length, rows[0].length] : [values.length]};
}

/// Of a .npy file: {datatype, shape, bytes}.
export function readNpy(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 12 || String.fromCharCode(...bytes.slice(1, 6)) !== 'NUMPY') throw new Error('it is no .npy file');
  const isLong = bytes[6] > 1;
  const start = (isLong ? 12 : 10) + (isLong ? view(bytes).getUint32(8, true) : view(bytes).getUint16(8, true));
  const head = new TextDecoder('latin1').decode(bytes.slice(isLong ? 12 : 10, start));
  const descr = head.match(/'descr':\s*'([^']+)'/)?.[1].replace('=', '<');
  const datatype = Object.keys(kTypes).find((name) => kTypes[name].npy === descr);
  if (!datatype) throw new Error(`its numbers are '${descr}', which is not supported`);
  if (!/'fortran_order':\s*False/.test(head)) throw new Error('it is in Fortran order: save it with numpy.ascontiguousarray');
  const shape = (head.match(/'shape':\s*\(([^)]*)\)/)?.[1] ?? '').split(',').map((each) => each.trim()).filter((each) => each !== '').map(Number);
  const data = bytes.slice(start);
  if (data.length !== countOf(shape) * kTypes[datatype].bytes) throw new Error('it is cut off');
  return {datatype, shape, bytes: data};
}
export function npyOf(datatype, shape, bytes) {
  const head = `{'descr': '${kTypes[datatype].npy}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  const padded = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + '\n';
  const first = new Uint8Array(10 + padded.length);
  first.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8]);
  first.set(new TextEncoder().encode(padded), 10);
  return [first, bytes];
}
