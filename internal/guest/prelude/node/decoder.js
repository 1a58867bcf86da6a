// The string_decoder module: text of bytes that come in pieces.

import { apply, define, NativeTypeError, NativeUint8Array, toLowerCase, typedArraySet, typedArraySubarray } from '../intrinsics.js';
import { bytesOf } from '../bytes.js';
import { Buffer } from '../web/buffer.js';
import { TextDecoder } from '../web/encoding.js';
import { argument, coded } from './refuse.js';

const { from, isEncoding } = Buffer;
const { toString } = Buffer.prototype;
const { decode } = TextDecoder.prototype;
const streaming = { __proto__: null, stream: true };
const textOf = (bytes, encoding) => apply(toString, apply(from, Buffer, [bytes]), [encoding]);

// incomplete counts the bytes at the end that wait for the next piece.
function incomplete(bytes, encoding) {
  const length = bytes.length;
  switch (encoding) {
    case 'base64': case 'base64url': return length % 3;
    case 'utf16le': {
      const odd = length % 2;
      const last = length - odd;
      return last >= 2 && (bytes[last - 1] & 0xfc) === 0xd8 ? odd + 2 : odd; // half a surrogate pair
    }
    default: return 0;
  }
}

const spelled = { __proto__: null, 'utf-8': 'utf8', ucs2: 'utf16le', 'ucs-2': 'utf16le', 'utf-16le': 'utf16le', binary: 'latin1' };

export class StringDecoder {
  #rest = new NativeUint8Array(0);
  #utf8; // a decoder

  constructor(encoding = 'utf8') {
    if (!isEncoding(encoding)) throw coded(NativeTypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encoding}`);
    const name = toLowerCase(`${encoding}`);
    define(this, 'encoding', spelled[name] ?? name);
    if (this.encoding === 'utf8') this.#utf8 = new TextDecoder('utf-8', { __proto__: null, ignoreBOM: true });
  }

  write(piece) {
    if (typeof piece === 'string') return piece;
    const bytes = bytesOf(piece);
    argument(bytes, 'buf', 'an instance of Buffer, TypedArray, or DataView', piece);
    if (this.#utf8) return apply(decode, this.#utf8, [bytes, streaming]);
    const whole = new NativeUint8Array(this.#rest.length + bytes.length);
    typedArraySet(whole, this.#rest);
    typedArraySet(whole, bytes, this.#rest.length);
    const end = whole.length - incomplete(whole, this.encoding);
    this.#rest = typedArraySubarray(whole, end);
    return textOf(typedArraySubarray(whole, 0, end), this.encoding);
  }

  end(piece) {
    const text = piece === undefined ? '' : this.write(piece);
    if (this.#utf8) return text + apply(decode, this.#utf8, []);
    const rest = this.#rest;
    this.#rest = new NativeUint8Array(0);
    return text + textOf(rest, this.encoding);
  }
}
