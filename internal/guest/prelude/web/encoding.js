// TextEncoder and TextDecoder. UTF-8 is decoded here, every other encoding by a library.
import { guarded, library } from '../libraries.js';
import {
  Bytes, bytesOf, isArrayBuffer, isView, lower, slice, str, subarray, tag, typedBuffer, typedLength, typedOffset, typedSlice, typedTag,
} from './intrinsics.js';
import { concat, decode, encode, encodeInto, unfinished } from './utf8.js';

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
  #fatal;
  #ignoreBOM;
  #other = null; // of the libraries, for what is not UTF-8
  #kept = null; // bytes of an unfinished code point, while streaming
  #started = false; // the byte order mark is behind us

  constructor(label = 'utf-8', options = {}) {
    this.#fatal = Boolean(options?.fatal);
    this.#ignoreBOM = Boolean(options?.ignoreBOM);
    const name = str(label);
    if (lower(name) === 'utf-8' || lower(name) === 'utf8') return;
    const other = library('openDecoder', name, this.#fatal, this.#ignoreBOM);
    if (other === null) {
      const error = new RangeError(`The "${slice(name, 0, 100)}" encoding is not supported: use a label of the Encoding Standard, like utf-8 or latin1`);
      error.code = 'ERR_ENCODING_NOT_SUPPORTED';
      throw error;
    }
    if (other.encoding !== 'utf-8') this.#other = other;
  }

  get encoding() {
    return this.#other === null ? 'utf-8' : this.#other.encoding;
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
    const bytes = input === undefined ? new Bytes(0) : bytesOf(input);
    const stream = Boolean(options?.stream);
    const text = this.#other === null
      ? this.#decode(bytes, stream)
      : guarded(this.#other.decode)(typedBuffer(bytes), typedOffset(bytes), typedLength(bytes), stream);
    if (typeof text === 'string') return text;
    const error = new TypeError(`The encoded data was not valid for encoding ${this.encoding}`);
    error.code = 'ERR_ENCODING_INVALID_ENCODED_DATA';
    throw error;
  }

  #decode(bytes, stream) {
    if (this.#kept) bytes = concat([this.#kept, bytes]);
    this.#kept = null;
    if (stream) {
      const tail = unfinished(bytes);
      if (tail > 0) this.#kept = typedSlice(bytes, bytes.length - tail);
      bytes = subarray(bytes, 0, bytes.length - tail);
    }
    let text = decode(bytes, this.#fatal);
    if (text === undefined) {
      this.#kept = null;
      this.#started = false;
      return undefined;
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
