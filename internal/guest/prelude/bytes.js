// Bytes and texts: views of bytes, UTF-8, binary strings, hexadecimal digits and base64. Where the engine has base64 on Uint8Array
// (QuickJS has), text goes through its native code, which is five times faster there than a loop.

import {
  apply, bufferByteLength, charCodeAt, dataViewBuffer, dataViewByteLength, dataViewByteOffset, decodeURIComponent, encodeURIComponent, escape,
  fromCharCode, isView, jsonParse, join, min, NativeUint8Array, numberToString, parseInt, push, regExpExec, strIndexOf, strSlice, toWellFormed,
  typedArrayBuffer, typedArrayByteLength, typedArrayByteOffset, typedArrayLength, typedArrayName, typedArraySet, typedArraySubarray,
  unescape,
} from './intrinsics.js';
import { library } from './libraries.js';
import { replace } from './text.js';

const { atob, btoa } = globalThis;
const { fromBase64: readBase64, fromHex: readHex } = NativeUint8Array;
const { toBase64: writeBase64, toHex: writeHex } = NativeUint8Array.prototype;
const native = readBase64 !== undefined && writeBase64 !== undefined;
const NATIVE_MIN = 64; // below this a loop is as fast
const CHUNK = 1 << 15; // bounds the intermediate strings, and the arguments of one fromCharCode

// isArrayBuffer says whether a value is an ArrayBuffer, without trusting its prototype.
export function isArrayBuffer(value) {
  try {
    bufferByteLength(value);
    return true;
  } catch {
    return false;
  }
}

// bytesOf views an ArrayBuffer or a view of one as bytes, without copying; undefined for anything else.
export function bytesOf(value) {
  if (isArrayBuffer(value)) return new NativeUint8Array(value);
  if (!isView(value)) return undefined;
  return typedArrayName(value) === undefined
    ? new NativeUint8Array(dataViewBuffer(value), dataViewByteOffset(value), dataViewByteLength(value))
    : new NativeUint8Array(typedArrayBuffer(value), typedArrayByteOffset(value), typedArrayByteLength(value));
}

const isHigh = (c) => (c & 0xfc00) === 0xd800;

// encodeInto writes as much of a text as fits, whole code points only, and returns {read, written}.
export function encodeInto(text, out) {
  return jsonParse(library('encodeInto', text, typedArrayBuffer(out), typedArrayByteOffset(out), typedArrayLength(out)));
}

// encode returns the UTF-8 of a text.
export function encode(text) {
  const parts = [];
  for (let from = 0; from < text.length; ) {
    let to = min(from + CHUNK, text.length);
    if (to < text.length && isHigh(charCodeAt(text, to - 1))) to++;
    const bytes = unescape(encodeURIComponent(toWellFormed(strSlice(text, from, to))));
    push(parts, native && bytes.length >= NATIVE_MIN ? fromBase64(btoa(bytes)) : fromBinary(bytes));
    from = to;
  }
  return concat(parts);
}

// concat joins byte arrays; a single one is returned as it is.
export function concat(parts) {
  if (parts.length === 1) return parts[0];
  let length = 0;
  for (let i = 0; i < parts.length; i++) length += parts[i].length;
  const out = new NativeUint8Array(length);
  for (let i = 0, at = 0; i < parts.length; at += parts[i++].length) typedArraySet(out, parts[i], at);
  return out;
}

// decode turns UTF-8 into text, each bad sequence into U+FFFD as the Encoding Standard does; null for bad input when fatal.
export function decode(bytes, fatal) {
  const parts = [];
  for (let from = 0; from < bytes.length; ) {
    let to = min(from + CHUNK, bytes.length);
    if (to < bytes.length) {
      let cut = to;
      while (cut > to - 4 && (bytes[cut] & 0xc0) === 0x80) cut--;
      if ((bytes[cut] & 0xc0) !== 0x80) to = cut;
    }
    const part = decodePart(typedArraySubarray(bytes, from, to), fatal);
    if (part === null) return null;
    push(parts, part);
    from = to;
  }
  return join(parts, '');
}

function decodePart(bytes, fatal) {
  try {
    return decodeURIComponent(escape(binary(bytes)));
  } catch {
    // Something in it is no UTF-8: the library finds what.
    return library(fatal ? 'decodeStrictly' : 'decodeLoosely', typedArrayBuffer(bytes), typedArrayByteOffset(bytes), bytes.length);
  }
}

// binary makes the string whose char codes are the bytes.
export function binary(bytes) {
  if (bytes.length <= CHUNK) return apply(fromCharCode, undefined, bytes);
  const parts = [];
  for (let i = 0; i < bytes.length; i += CHUNK) push(parts, apply(fromCharCode, undefined, typedArraySubarray(bytes, i, i + CHUNK)));
  return join(parts, '');
}

// fromBinary takes the low byte of each char code.
export function fromBinary(text) {
  const out = new NativeUint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = charCodeAt(text, i);
  return out;
}

// toHex writes two digits for each byte.
export function toHex(bytes) {
  if (writeHex !== undefined) return apply(writeHex, bytes, []);
  const parts = [];
  for (let i = 0; i < bytes.length; i++) push(parts, (bytes[i] < 16 ? '0' : '') + numberToString(bytes[i], 16));
  return join(parts, '');
}

// fromHex reads pairs of digits, up to the first that is none.
export function fromHex(text) {
  const bad = regExpExec(/[^\da-f]/i, text);
  const good = strSlice(text, 0, (bad ? bad.index : text.length) & ~1);
  if (readHex !== undefined) return apply(readHex, NativeUint8Array, [good]);
  const out = new NativeUint8Array(good.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(strSlice(good, 2 * i, 2 * i + 2), 16);
  return out;
}

// toBase64 encodes bytes; url gives the URL-safe alphabet without padding.
export function toBase64(bytes, url = false) {
  const text = native ? apply(writeBase64, bytes, []) : btoa(binary(bytes));
  return url ? replace(/[+/]|=+$/g, text, (m) => (m[0] === '+' ? '-' : m[0] === '/' ? '_' : '')) : text;
}

// fromBase64 decodes base64 that is well formed.
export const fromBase64 = (text) => (native ? apply(readBase64, NativeUint8Array, [text]) : fromBinary(atob(text)));

// fromBase64Loose decodes as Node's Buffer does: both alphabets, anything else skipped, ends at the first '='.
export function fromBase64Loose(text) {
  const end = strIndexOf(text, '=');
  let clean = replace(/[^A-Za-z0-9+/]/g, end < 0 ? text : strSlice(text, 0, end), (m) =>
    m[0] === '-' ? '+' : m[0] === '_' ? '/' : '');
  if (clean.length % 4 === 1) clean = strSlice(clean, 0, -1);
  return fromBase64(clean);
}
