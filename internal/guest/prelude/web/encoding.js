// TextEncoder and TextDecoder: utf-8, utf-16le and windows-1252 (which is what the labels latin1 and ascii mean).
import {
  Bytes, bytesOf, charCodeAt, create, isArrayBuffer, isView, lower, replace, slice, str, subarray, tag, toWellFormed,
  trim, typedBuffer, typedSlice, typedTag,
} from './intrinsics.js';
import { binary, concat, decode, encode, encodeInto, unfinished } from './utf8.js';

const Uint16 = Uint16Array; // little endian, as every machine this runs on

// windows-1252 differs from Latin-1 here, at 0x80 to 0x9f.
const HIGH = '\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f' +
  '\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178';

const decodeLatin = (bytes) =>
  replace(/[\x80-\x9f]/g, binary(bytes), (m) => HIGH[charCodeAt(m[0], 0) - 0x80]);

function decode16(bytes, fatal) {
  const even = bytes.length & ~1;
  const units = binary(new Uint16(typedBuffer(typedSlice(bytes, 0, even)))); // copied: a view must be aligned
  const text = toWellFormed(units);
  if (fatal && (text !== units || even < bytes.length)) return undefined;
  return even < bytes.length ? text + '\ufffd' : text;
}

function unfinished16(bytes) {
  const odd = bytes.length & 1;
  const last = bytes.length - odd - 1;
  return odd + (last > 0 && (bytes[last] & 0xfc) === 0xd8 ? 2 : 0);
}

const CODECS = {
  __proto__: null,
  'utf-8': { decode, unfinished },
  'utf-16le': { decode: decode16, unfinished: unfinished16 },
  'windows-1252': { decode: decodeLatin, unfinished: () => 0 },
};

const LABELS = create(null);
for (const [name, labels] of [
  ['utf-8', 'utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8'],
  ['utf-16le', 'utf-16le utf-16 ucs-2 unicode csunicode iso-10646-ucs-2 unicodefeff'],
  ['windows-1252', 'windows-1252 cp1252 x-cp1252 latin1 l1 ascii us-ascii ansi_x3.4-1968 iso-8859-1 iso8859-1 ' +
    'iso_8859-1 iso88591 iso_8859-1:1987 iso-ir-100 ibm819 cp819 csisolatin1'],
]) {
  for (const label of labels.split(' ')) LABELS[label] = name;
}

export class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(text = '') {
    return encode(str(text));
  }

  encodeInto(text, target) {
    if (typedTag(target) !== 'Uint8Array') throw new TypeError('TextEncoder.encodeInto writes into a Uint8Array');
    return encodeInto(str(text), target);
  }
}

export class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #kept = null; // bytes of an unfinished code point, while streaming
  #started = false; // the byte order mark is behind us

  constructor(label = 'utf-8', options = {}) {
    this.#encoding = LABELS[lower(trim(str(label)))];
    if (this.#encoding === undefined) {
      throw new RangeError(`The "${label}" encoding is not supported: use utf-8, utf-16le or latin1`);
    }
    this.#fatal = Boolean(options?.fatal);
    this.#ignoreBOM = Boolean(options?.ignoreBOM);
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBOM;
  }

  decode(input, options = {}) {
    if (input !== undefined && !isArrayBuffer(input) && !isView(input)) {
      throw new TypeError('TextDecoder.decode takes an ArrayBuffer or a view of one');
    }
    let bytes = input === undefined ? new Bytes(0) : bytesOf(input);
    if (this.#kept) bytes = concat([this.#kept, bytes]);
    this.#kept = null;
    const codec = CODECS[this.#encoding];
    const stream = Boolean(options?.stream);
    if (stream) {
      const tail = codec.unfinished(bytes);
      if (tail > 0) this.#kept = typedSlice(bytes, bytes.length - tail);
      bytes = subarray(bytes, 0, bytes.length - tail);
    }
    let text = codec.decode(bytes, this.#fatal);
    if (text === undefined) {
      this.#kept = null;
      this.#started = false;
      const error = new TypeError(`The encoded data was not valid for encoding ${this.#encoding}`);
      error.code = 'ERR_ENCODING_INVALID_ENCODED_DATA';
      throw error;
    }
    if (!this.#started && text !== '') {
      this.#started = true;
      if (!this.#ignoreBOM && text[0] === '\ufeff') text = slice(text, 1);
    }
    if (!stream) this.#started = false;
    return text;
  }
}

tag(TextEncoder, 'TextEncoder');
tag(TextDecoder, 'TextDecoder');
