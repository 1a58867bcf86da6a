// UTF-8, binary strings and base64 on bytes. Where the engine has base64 on Uint8Array (QuickJS has), text goes
// through its native code, which is five times faster there than a loop.
import {
  apply, Bytes, charCodeAt, decodeURIComponent, encodeURIComponent, escape, exec, fromCharCode, int, join, min, numString,
  push, replace, slice, strIndexOf, subarray, toWellFormed, typedSet, typedSlice, unescape,
} from './intrinsics.js';

const { atob, btoa } = globalThis;
const { fromBase64, fromHex: readHex } = Bytes;
const { toBase64, toHex } = Bytes.prototype;
const native = fromBase64 !== undefined && toBase64 !== undefined;
const NATIVE_MIN = 64; // below this a loop is as fast
const CHUNK = 1 << 15; // bounds the intermediate strings, and the arguments of one fromCharCode

const isHigh = (c) => (c & 0xfc00) === 0xd800;
const isLow = (c) => (c & 0xfc00) === 0xdc00;

// utf8Length counts the bytes of a text; a lone surrogate is the three bytes of U+FFFD.
export function utf8Length(text) {
  let n = text.length;
  for (let i = 0; i < text.length; i++) {
    const c = charCodeAt(text, i);
    if (c < 0x80) continue;
    n += c < 0x800 ? 1 : 2;
    if (isHigh(c) && isLow(charCodeAt(text, i + 1))) i++;
  }
  return n;
}

// encodeInto writes as much of a text as fits, whole code points only.
export function encodeInto(text, out) {
  let at = 0;
  let i = 0;
  for (; i < text.length; i++) {
    let c = charCodeAt(text, i);
    let low = 0;
    if (isHigh(c) && isLow(charCodeAt(text, i + 1))) low = charCodeAt(text, i + 1);
    if (low) c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    else if (isHigh(c) || isLow(c)) c = 0xfffd;
    const size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (at + size > out.length) break;
    if (size === 1) out[at++] = c;
    else {
      out[at] = (size === 2 ? 0xc0 : size === 3 ? 0xe0 : 0xf0) | (c >> (6 * (size - 1)));
      for (let k = 1; k < size; k++) out[at + k] = 0x80 | ((c >> (6 * (size - 1 - k))) & 63);
      at += size;
    }
    if (low) i++;
  }
  return { read: i, written: at };
}

// encode returns the UTF-8 of a text.
export function encode(text) {
  if (!native || text.length < NATIVE_MIN) {
    const out = new Bytes(text.length * 3);
    return typedSlice(out, 0, encodeInto(text, out).written);
  }
  const parts = [];
  for (let from = 0; from < text.length; ) {
    let to = min(from + CHUNK, text.length);
    if (to < text.length && isHigh(charCodeAt(text, to - 1))) to++;
    push(parts, fromBase64(btoa(unescape(encodeURIComponent(toWellFormed(slice(text, from, to)))))));
    from = to;
  }
  return concat(parts);
}

// concat joins byte arrays; a single one is returned as it is.
export function concat(parts) {
  if (parts.length === 1) return parts[0];
  let length = 0;
  for (let i = 0; i < parts.length; i++) length += parts[i].length;
  const out = new Bytes(length);
  for (let i = 0, at = 0; i < parts.length; at += parts[i++].length) typedSet(out, parts[i], at);
  return out;
}

// decode turns UTF-8 into text, each bad sequence into U+FFFD as the Encoding Standard does; undefined for bad input
// when fatal.
export function decode(bytes, fatal) {
  const parts = [];
  for (let from = 0; from < bytes.length; ) {
    let to = min(from + CHUNK, bytes.length);
    if (to < bytes.length) {
      let cut = to;
      while (cut > to - 4 && (bytes[cut] & 0xc0) === 0x80) cut--;
      if ((bytes[cut] & 0xc0) !== 0x80) to = cut;
    }
    const part = decodePart(subarray(bytes, from, to), fatal);
    if (part === undefined) return undefined;
    push(parts, part);
    from = to;
  }
  return join(parts, '');
}

function decodePart(bytes, fatal) {
  if (native && bytes.length >= NATIVE_MIN) {
    try {
      return decodeURIComponent(escape(binary(bytes)));
    } catch {
      // Something in it is no UTF-8: the loop finds what.
    }
  }
  let out = '';
  for (let i = 0; i < bytes.length; ) {
    const lead = bytes[i++];
    if (lead < 0x80) {
      out += fromCharCode(lead);
      continue;
    }
    const want = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    let c = lead & (0x3f >> want);
    let k = 0;
    while (k < want && i < bytes.length && continues(lead, k, bytes[i])) {
      c = (c << 6) | (bytes[i++] & 63);
      k++;
    }
    if (want === 0 || k < want) {
      if (fatal) return undefined;
      out += '\ufffd';
    } else if (c < 0x10000) out += fromCharCode(c);
    else out += fromCharCode(0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
  }
  return out;
}

// continues says whether byte may stand at position k after lead: no overlong forms, no surrogates, none past U+10FFFF.
function continues(lead, k, byte) {
  if ((byte & 0xc0) !== 0x80) return false;
  if (k > 0) return true;
  if (lead === 0xe0) return byte >= 0xa0;
  if (lead === 0xed) return byte < 0xa0;
  if (lead === 0xf0) return byte >= 0x90;
  return lead !== 0xf4 || byte < 0x90;
}

// unfinished counts the bytes at the end that begin a code point which further bytes may complete.
export function unfinished(bytes) {
  const n = bytes.length;
  for (let back = 1; back <= 3 && back <= n; back++) {
    const lead = bytes[n - back];
    if ((lead & 0xc0) === 0x80) continue;
    const want = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (want < back) return 0;
    for (let k = 0; k < back - 1; k++) if (!continues(lead, k, bytes[n - back + 1 + k])) return 0;
    return back;
  }
  return 0;
}

// binary makes the string whose char codes are the bytes.
export function binary(bytes) {
  if (bytes.length <= CHUNK) return apply(fromCharCode, undefined, bytes);
  const parts = [];
  for (let i = 0; i < bytes.length; i += CHUNK) push(parts, apply(fromCharCode, undefined, subarray(bytes, i, i + CHUNK)));
  return join(parts, '');
}

// fromBinary takes the low byte of each char code.
export function fromBinary(text) {
  const out = new Bytes(text.length);
  for (let i = 0; i < text.length; i++) out[i] = charCodeAt(text, i);
  return out;
}

// hex writes two digits for each byte.
export function hex(bytes) {
  if (toHex !== undefined) return apply(toHex, bytes, []);
  const parts = [];
  for (let i = 0; i < bytes.length; i++) push(parts, (bytes[i] < 16 ? '0' : '') + numString(bytes[i], 16));
  return join(parts, '');
}

// fromHex reads pairs of digits, up to the first that is none.
export function fromHex(text) {
  const bad = exec(/[^\da-f]/i, text);
  const good = slice(text, 0, (bad ? bad.index : text.length) & ~1);
  if (readHex !== undefined) return readHex(good);
  const out = new Bytes(good.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = int(slice(good, 2 * i, 2 * i + 2), 16);
  return out;
}

// base64 encodes bytes; url gives the URL-safe alphabet without padding.
export function base64(bytes, url) {
  const text = native ? apply(toBase64, bytes, []) : btoa(binary(bytes));
  return url ? replace(/[+/]|=+$/g, text, (m) => (m[0] === '+' ? '-' : m[0] === '/' ? '_' : '')) : text;
}

// fromBase64Loose decodes as Node's Buffer does: both alphabets, anything else skipped, ends at the first '='.
export function fromBase64Loose(text) {
  const end = strIndexOf(text, '=');
  let clean = replace(/[^A-Za-z0-9+/]/g, end < 0 ? text : slice(text, 0, end), (m) =>
    m[0] === '-' ? '+' : m[0] === '_' ? '/' : '');
  if (clean.length % 4 === 1) clean = slice(clean, 0, -1);
  return native ? fromBase64(clean) : fromBinary(atob(clean));
}
