// Blob and File (File API): bytes that do not change, with a type.
import {
  defineProperty, max, min, NativeUint8Array, push, resolve, symbolInspect, toLowerCase, toNumber, toStr, toWellFormed, trunc,
  typedArrayBuffer, typedArraySlice, typedArraySubarray,
} from '../intrinsics.js';
import { bytesOf, concat, decode, encode } from '../bytes.js';
import { replace, test } from '../text.js';
import { tag } from './shapes.js';

const typeOf = (value) => {
  const text = value === undefined ? '' : toStr(value);
  return test(/[^ -~]/, text) ? '' : toLowerCase(text);
};

let contents; // the bytes of a Blob, undefined for any other value
let fill; // gives a Blob the contents and the type of another one
let copyFile = () => undefined;

export class Blob {
  #bytes;
  #type;

  static {
    contents = (value) => (value !== null && typeof value === 'object' && #bytes in value ? value.#bytes : undefined);
    fill = (blob, other) => {
      blob.#bytes = other.#bytes;
      blob.#type = other.#type;
      return blob;
    };
  }

  constructor(parts = [], options = undefined) {
    if (parts === null || typeof parts !== 'object' || typeof parts[Symbol.iterator] !== 'function') {
      throw new TypeError('Blob takes an array of strings, bytes and Blobs');
    }
    if (options !== undefined && options !== null && typeof options !== 'object' && typeof options !== 'function') {
      throw new TypeError('the options of a Blob must be an object');
    }
    const all = [new NativeUint8Array(0)];
    for (const part of parts) {
      const bytes = contents(part) ?? bytesOf(part);
      if (bytes) push(all, bytes);
      else {
        const text = toWellFormed(toStr(part));
        push(all, encode(options?.endings === 'native' ? replace(/\r\n?|\n/g, text, () => '\n') : text));
      }
    }
    this.#bytes = concat(all);
    this.#type = typeOf(options?.type);
  }

  get size() { return this.#bytes.length; }
  get type() { return this.#type; }

  slice(start = 0, end = this.size, type = '') {
    const at = (n) => {
      n = trunc(toNumber(n)) || 0;
      return n < 0 ? max(this.size + n, 0) : min(n, this.size);
    };
    const out = new Blob();
    out.#bytes = typedArraySubarray(this.#bytes, at(start), max(at(start), at(end)));
    out.#type = typeOf(type);
    return out;
  }

  text() { return resolve(decode(this.#bytes, false)); }
  arrayBuffer() { return resolve(typedArrayBuffer(typedArraySlice(this.#bytes, 0))); }
  bytes() { return resolve(typedArraySlice(this.#bytes, 0)); }
  stream() { throw new TypeError('Blob.stream is not available in the sandbox: use await blob.text() or await blob.bytes()'); }

  [symbolInspect](depth, options, inspect) {
    return depth < 0 ? '[Blob]' : `Blob ${inspect({ size: this.size, type: this.type }, options)}`;
  }
}
tag(Blob, 'Blob');
for (const name of ['size', 'type']) defineProperty(Blob.prototype, name, { __proto__: null, enumerable: true });

// blobBytes are the bytes of a Blob, not to be changed.
export const blobBytes = (blob) => contents(blob);
export const isBlob = (value) => contents(value) !== undefined;

// cloneBlob copies a Blob or a File; undefined for any other value.
export const cloneBlob = (value) => (isBlob(value) ? copyFile(value) ?? fill(new Blob(), value) : undefined);

// fileClass makes File over ctx's clock.
export function fileClass(ctx) {
  class File extends Blob {
    #name;
    #modified;

    static {
      copyFile = (value) => (#name in value
        ? fill(new File([], value.#name, { __proto__: null, lastModified: value.#modified }), value) : undefined);
    }

    constructor(parts, name, options = undefined) {
      if (arguments.length < 2) throw new TypeError('File takes its contents and its name');
      super(parts, options);
      this.#name = toWellFormed(toStr(name));
      this.#modified = options?.lastModified === undefined ? trunc(ctx.now() / 1000) : trunc(toNumber(options.lastModified)) || 0;
    }

    get name() { return this.#name; }
    get lastModified() { return this.#modified; }
    get webkitRelativePath() { return ''; }

    [symbolInspect](depth, options, inspect) {
      const { size, type, name, lastModified } = this;
      return depth < 0 ? '[File]' : `File ${inspect({ size, type, name, lastModified }, options)}`;
    }
  }
  tag(File, 'File');
  return File;
}
