// Buffer: the part of Node's that programs use, a subclass of Uint8Array.
import {
  charCodeAt, isArray, isNaN, isView, max, min, NativeUint8Array, push, symbolInspect, toLowerCase, toNumber, toStr, trunc,
  typedArrayBuffer, typedArrayByteOffset, typedArrayFill, typedArrayIndexOf, typedArrayName, typedArraySet, typedArraySlice, typedArraySubarray,
} from '../intrinsics.js';
import { 
  binary, bytesOf, decode, encode, encodeInto, fromBase64Loose, fromBinary, fromHex, isArrayBuffer, toBase64, toHex,
} from '../bytes.js';
import { argument, coded, range } from '../node/refuse.js';
import { replace, utf8Length } from '../text.js';
import { method, named } from './shapes.js';
import { defineNumbers } from './buffernumbers.js';

const fail = (Kind, code, message) => {
  throw coded(Kind, code, message);
};

const CODECS = {
  __proto__: null,
  utf8: { bytes: encode, text: (b) => decode(b, false) },
  latin1: { bytes: fromBinary, text: binary },
  ascii: {
    bytes: fromBinary,
    text: (b) => {
      const low = new NativeUint8Array(b.length);
      for (let i = 0; i < b.length; i++) low[i] = b[i] & 127;
      return binary(low);
    },
  },
  hex: { bytes: fromHex, text: toHex },
  base64: { bytes: fromBase64Loose, text: (b) => toBase64(b) },
  base64url: { bytes: fromBase64Loose, text: (b) => toBase64(b, true) },
  utf16le: {
    bytes: (text) => {
      const units = new Uint16(text.length); // every engine here is little-endian
      for (let i = 0; i < text.length; i++) units[i] = charCodeAt(text, i);
      return bytesOf(units);
    },
    text: (b) => {
      const even = typedArraySlice(b, 0, b.length & ~1);
      return binary(new Uint16(typedArrayBuffer(even)));
    },
  },
};
const Uint16 = Uint16Array;
const ALIASES = {
  __proto__: null, 'utf-8': 'utf8', binary: 'latin1', ucs2: 'utf16le', 'ucs-2': 'utf16le', 'utf-16le': 'utf16le',
};

const known = (name) => {
  const low = toLowerCase(toStr(name));
  return CODECS[ALIASES[low] ?? low];
};
const codec = (name) =>
  (name === undefined || name === null || name === '' ? CODECS.utf8
    : known(name) ?? fail(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${name}`));

const size = (n) => {
  argument(typeof n === 'number', 'size', 'of type number', n);
  range(n >= 0 && n <= 0xffffffff, 'size', '>= 0 && <= 4294967295', n);
  return trunc(n);
};

const wrap = (bytes) => new Buffer(typedArrayBuffer(bytes), typedArrayByteOffset(bytes), bytes.length);
const bytesArg = (value, name) => {
  argument(typedArrayName(value) === 'Uint8Array', name, 'an instance of Buffer or Uint8Array', value);
  return value;
};
const clamp = (n, otherwise, limit) => {
  if (n === undefined) return otherwise;
  n = trunc(toNumber(n)) || 0;
  return n < 0 ? max(limit + n, 0) : min(n, limit);
};

function order(a, b) {
  const n = min(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return a.length < b.length ? -1 : a.length > b.length ? 1 : 0;
}

// search finds a byte sequence from a position on, or back from it; -1 where it is not.
function search(buffer, value, from, encoding, backward) {
  if (typeof from === 'string') return search(buffer, value, undefined, from, backward);
  const last = buffer.length;
  let at = from === undefined || isNaN(from) ? (backward ? last : 0) : trunc(toNumber(from));
  if (at < 0) at += last;
  if (at < 0) {
    if (backward) return -1;
    at = 0;
  }
  const want = typeof value === 'number' ? [value & 255]
    : typeof value === 'string' ? codec(encoding).bytes(value) : bytesArg(value, 'value');
  if (want.length === 0) return min(at, last);
  if (backward) {
    for (let i = min(at, last - want.length); i >= 0; i--) if (matches(buffer, want, i)) return i;
    return -1;
  }
  for (let i = typedArrayIndexOf(buffer, want[0], at); i >= 0; i = typedArrayIndexOf(buffer, want[0], i + 1)) {
    if (matches(buffer, want, i)) return i;
  }
  return -1;
}

function matches(buffer, want, at) {
  if (at + want.length > buffer.length) return false;
  for (let k = 0; k < want.length; k++) if (buffer[at + k] !== want[k]) return false;
  return true;
}

export class Buffer extends Uint8Array {
  // new Buffer(text, encoding) is old, but still written; the engine's own methods call with a length or a buffer.
  constructor(value, encoding, length) {
    if (typeof value === 'string') super(codec(encoding).bytes(value));
    else super(value, encoding, length);
  }

  static from(value, encoding, length) {
    if (typeof value === 'string') return wrap(codec(encoding).bytes(value));
    if (isArrayBuffer(value)) return new Buffer(value, encoding, length);
    if (isView(value)) return wrap(typedArrayName(value) === undefined ? new NativeUint8Array(0) : new NativeUint8Array(value));
    if (value !== null && typeof value === 'object') {
      const inner = value.valueOf?.();
      if (inner !== value && inner !== null && inner !== undefined) return Buffer.from(inner, encoding, length);
      if (value.type === 'Buffer' && isArray(value.data)) return wrap(new NativeUint8Array(value.data));
      if (isArray(value) || typeof value.length === 'number') return wrap(new NativeUint8Array(value));
    }
    return fail(TypeError, 'ERR_INVALID_ARG_TYPE',
      'The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object');
  }

  static alloc(length, fill, encoding) {
    const out = new Buffer(size(length));
    return fill === undefined || fill === 0 ? out : out.fill(fill, encoding);
  }

  static allocUnsafe(length) { return new Buffer(size(length)); }
  static allocUnsafeSlow(length) { return new Buffer(size(length)); }
  static isBuffer(value) { return value instanceof Buffer; }
  static isEncoding(name) { return typeof name === 'string' && known(name) !== undefined; }

  static byteLength(value, encoding) {
    if (typeof value !== 'string') {
      return (bytesOf(value) ?? fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'byteLength takes a string or a buffer')).length;
    }
    const found = known(encoding ?? 'utf8');
    return found === undefined || found === CODECS.utf8 ? utf8Length(value) : found.bytes(value).length;
  }

  static compare(a, b) { return order(bytesArg(a, 'buf1'), bytesArg(b, 'buf2')); }

  static concat(list, total) {
    argument(isArray(list), 'list', 'an instance of Array', list);
    let length = 0;
    for (let i = 0; i < list.length; i++) length += bytesArg(list[i], `list[${i}]`).length;
    const out = Buffer.alloc(total ?? length);
    for (let i = 0, at = 0; i < list.length && at < out.length; at += list[i++].length) {
      typedArraySet(out, list[i].length > out.length - at ? typedArraySubarray(list[i], 0, out.length - at) : list[i], at);
    }
    return out;
  }

  toString(encoding, start, end) {
    const from = start === undefined ? 0 : max(trunc(toNumber(start)) || 0, 0);
    const to = end === undefined ? this.length : min(trunc(toNumber(end)) || 0, this.length);
    if (to <= from) return '';
    return codec(encoding).text(new NativeUint8Array(typedArrayBuffer(this), typedArrayByteOffset(this) + from, to - from));
  }

  toLocaleString(encoding, start, end) { return this.toString(encoding, start, end); }

  toJSON() {
    const data = [];
    for (let i = 0; i < this.length; i++) push(data, this[i]);
    return { type: 'Buffer', data };
  }

  subarray(start, end) {
    const from = clamp(start, 0, this.length);
    return new Buffer(typedArrayBuffer(this), typedArrayByteOffset(this) + from, max(clamp(end, this.length, this.length) - from, 0));
  }

  slice(start, end) { return this.subarray(start, end); }
  equals(other) { return order(this, bytesArg(other, 'otherBuffer')) === 0; }

  compare(other, start = 0, end = other.length, from = 0, to = this.length) {
    return order(typedArraySubarray(this, from, to), typedArraySubarray(bytesArg(other, 'target'), start, end));
  }

  indexOf(value, from, encoding) { return search(this, value, from, encoding, false); }
  lastIndexOf(value, from, encoding) { return search(this, value, from, encoding, true); }
  includes(value, from, encoding) { return this.indexOf(value, from, encoding) >= 0; }

  copy(target, at = 0, start = 0, end = this.length) {
    bytesArg(target, 'target');
    const part = typedArraySubarray(this, start, min(end, start + max(target.length - at, 0)));
    typedArraySet(target, part, min(at, target.length));
    return part.length;
  }

  fill(value, start, end, encoding) {
    if (typeof start === 'string') [start, encoding] = [undefined, start];
    else if (typeof end === 'string') [end, encoding] = [undefined, end];
    const from = start ?? 0;
    const to = end ?? this.length;
    if (!(from >= 0 && to <= this.length)) fail(RangeError, 'ERR_OUT_OF_RANGE', 'fill is out of range of the buffer');
    if (typeof value !== 'string' && bytesOf(value) === undefined) return typedArrayFill(this, value & 255, from, to);
    const bytes = typeof value === 'string' ? codec(encoding).bytes(value) : bytesOf(value);
    if (bytes.length === 0) {
      if (value.length === 0) return typedArrayFill(this, 0, from, to);
      fail(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'value' is invalid: ${value}`);
    }
    for (let i = from; i < to; i++) this[i] = bytes[(i - from) % bytes.length];
    return this;
  }

  write(text, start, length, encoding) {
    argument(typeof text === 'string', 'string', 'of type string', text);
    if (typeof start === 'string') [start, encoding] = [undefined, start];
    else if (typeof length === 'string') [length, encoding] = [undefined, length];
    const at = start ?? 0;
    range(at >= 0 && at <= this.length, 'offset', `>= 0 && <= ${this.length}`, at);
    const room = typedArraySubarray(this, at, at + min(length ?? this.length, this.length - at));
    const found = codec(encoding);
    if (found === CODECS.utf8) return encodeInto(text, room).written;
    const bytes = found.bytes(text);
    let n = min(bytes.length, room.length);
    if (found === CODECS.utf16le) n &= ~1;
    typedArraySet(room, typedArraySubarray(bytes, 0, n));
    return n;
  }
}

const SHOWN = 50; // bytes that inspect prints, as in Node
method(Buffer.prototype, symbolInspect, function () {
  let shown = toHex(typedArraySubarray(this, 0, SHOWN));
  shown = replace(/..(?=.)/g, shown, (m) => `${m[0]} `);
  const more = this.length - SHOWN;
  return `<Buffer ${shown}${more > 0 ? ` ... ${more} more byte${more > 1 ? 's' : ''}` : ''}>`;
});
named(Buffer, 'Buffer');
defineNumbers(Buffer.prototype);
