// TextEncoder and TextDecoder over those of a library; whole texts of UTF-8 are decoded here, by what the engine has of it.
import {
  isView, NativeUint8Array, strSlice, toLowerCase, toStr, typedArrayBuffer, typedArrayByteOffset, typedArrayLength, typedArrayName,
} from '../intrinsics.js';
import { bytesOf, decode, encode, encodeInto, isArrayBuffer } from '../bytes.js';
import { guarded, library } from '../libraries.js';
import { coded } from '../node/refuse.js';
import { tag } from './shapes.js';

export class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(text = '') {
    return encode(toStr(text));
  }

  encodeInto(text, target) {
    if (typedArrayName(target) !== 'Uint8Array') throw new TypeError('TextEncoder.encodeInto writes into a Uint8Array');
    return encodeInto(toStr(text), target);
  }
}

export class TextDecoder {
  #fatal;
  #ignoreBOM;
  #decoder;
  #encoding = 'utf-8';
  #streaming = false; // the library's decoder may hold a part

  constructor(label = 'utf-8', options = {}) {
    this.#fatal = Boolean(options?.fatal);
    this.#ignoreBOM = Boolean(options?.ignoreBOM);
    const name = toStr(label);
    if (toLowerCase(name) === 'utf-8' || toLowerCase(name) === 'utf8') return; // its decoder is made when it is needed
    this.#open(name);
    this.#encoding = this.#decoder.encoding;
  }

  #open(name) {
    this.#decoder = library('openDecoder', name, this.#fatal, this.#ignoreBOM);
    if (this.#decoder !== null) return;
    throw coded(RangeError, 'ERR_ENCODING_NOT_SUPPORTED',
      `The "${strSlice(name, 0, 100)}" encoding is not supported: use a label of the Encoding Standard, like utf-8 or latin1`);
  }

  get encoding() { return this.#encoding; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#ignoreBOM; }

  decode(input, options = {}) {
    if (input !== undefined && !isArrayBuffer(input) && !isView(input)) {
      throw new TypeError('TextDecoder.decode takes an ArrayBuffer or a view of one');
    }
    const bytes = input === undefined ? new NativeUint8Array(0) : bytesOf(input);
    const stream = Boolean(options?.stream);
    let text;
    if (this.#encoding === 'utf-8' && !stream && !this.#streaming) {
      text = decode(bytes, this.#fatal);
      if (!this.#ignoreBOM && text?.[0] === '\ufeff') text = strSlice(text, 1);
    } else {
      if (this.#decoder === undefined) this.#open(this.#encoding);
      text = guarded(this.#decoder.decode)(typedArrayBuffer(bytes), typedArrayByteOffset(bytes), typedArrayLength(bytes), stream);
    }
    this.#streaming = stream;
    if (text !== null) return text;
    throw coded(TypeError, 'ERR_ENCODING_INVALID_ENCODED_DATA', `The encoded data was not valid for encoding ${this.#encoding}`);
  }
}

tag(TextEncoder, 'TextEncoder');
tag(TextDecoder, 'TextDecoder');
