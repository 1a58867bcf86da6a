// The crypto module: hashes, HMACs and the run's randomness.

import {
  apply, arraySlice, isSafeInteger, NativeError, NativeRangeError, NativeTypeError, typedArrayBuffer, typedArrayLength, typedArraySet,
} from '../intrinsics.js';
import { kindOf } from '../brands.js';
import { bytesOf } from '../bytes.js';
import { hashName, hashNames, startHash } from '../hash.js';
import { random } from '../random.js';
import { microtask } from '../timers.js';
import { tokenTo } from '../tokens.js';
import { Buffer } from '../web/buffer.js';
import { argument, coded, range, refuse } from './refuse.js';

const { alloc, from } = Buffer;
const { toString } = Buffer.prototype;
const toBuffer = (bytes) => apply(from, Buffer, [typedArrayBuffer(bytes)]);
const textOf = (buffer, encoding) => apply(toString, buffer, [encoding]);

// inputBytes are the bytes of data as a hash takes it: text in an encoding, or bytes.
function inputBytes(what, data, encoding) {
  if (typeof data === 'string') return apply(from, Buffer, [data, encoding]);
  const bytes = bytesOf(data);
  argument(bytes, what, 'of type string or an instance of Buffer, TypedArray, or DataView', data);
  return bytes;
}

function algorithm(name) {
  argument(typeof name === 'string', 'algorithm', 'of type string', name);
  const known = hashName(name);
  if (known) return known;
  throw new NativeError(`Digest method not supported: '${name}'; use md5, sha1, sha224, sha256, sha384 or sha512`);
}

// Digest is what createHash and createHmac return.
class Digest {
  #state; // undefined once it is finished
  #last; // of an HMAC, whose second digest is empty as in Node

  constructor(state, hmac) {
    this.#state = state;
    this.#last = hmac ? apply(alloc, Buffer, [0]) : undefined;
  }

  #open() {
    if (this.#state) return this.#state;
    throw coded(NativeError, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
  }

  copy() { return new Digest(this.#open().copy(), this.#last !== undefined); }

  update(data, encoding) {
    tokenTo('bytes', 'update', data);
    this.#open().update(inputBytes('data', data, encoding));
    return this;
  }

  digest(encoding) {
    let out = this.#last;
    if (this.#state || !out) out = toBuffer(this.#open().digest());
    this.#state = undefined;
    return encoding === undefined || encoding === 'buffer' ? out : textOf(out, encoding);
  }
}

function createHash(name) {
  return new Digest(startHash(algorithm(name)), false);
}

function createHmac(name, key) {
  return new Digest(startHash(algorithm(name), inputBytes('key', key, 'utf8')), true);
}

function hash(name, data, encoding = 'hex') {
  return createHash(name).update(data).digest(encoding);
}

const getHashes = () => arraySlice(hashNames);

// answer gives a value to a callback if there is one, behind none for its error, else to the caller.
function answer(callback, none, value) {
  if (callback === undefined) return value;
  if (typeof callback !== 'function') throw new NativeTypeError('The "callback" argument must be of type function');
  microtask(() => callback(none, value));
  return undefined;
}

const maxRandom = 16 << 20; // bytes in one call

function randomBytes(size, callback) {
  argument(typeof size === 'number', 'size', 'of type number', size);
  range(size >= 0 && size <= maxRandom, 'size', `>= 0 && <= ${maxRandom}`, size);
  return answer(callback, null, toBuffer(random(size)));
}

// fill fills a buffer from offset on with size random elements, or to its end.
function fill(buffer, offset = 0, size = undefined) {
  const bytes = bytesOf(buffer);
  argument(bytes, 'buf', 'an instance of ArrayBuffer or ArrayBufferView', buffer);
  const elements = kindOf(buffer) === 'TypedArray' ? typedArrayLength(buffer) : bytes.length;
  const width = elements === 0 ? 1 : bytes.length / elements;
  checkNumber('offset', offset, elements);
  const count = size ?? elements - offset;
  checkNumber('size', count, maxRandom / width);
  range(count + offset <= elements, 'size + offset', `<= ${elements}`, count + offset);
  typedArraySet(bytes, random(count * width), offset * width);
  return buffer;
}

function checkNumber(what, value, most) {
  argument(typeof value === 'number', what, 'of type number', value);
  range(isSafeInteger(value) && value >= 0 && value <= most, what, `>= 0 && <= ${most}`, value);
}

// randomInt draws 48 bits until they fall into a whole number of ranges, so that every value is as likely.
function randomInt(low, high, callback) {
  if (high === undefined || typeof high === 'function') return randomInt(0, low, high);
  const width = high - low;
  if (!isSafeInteger(low) || !isSafeInteger(high)) {
    throw coded(NativeTypeError, 'ERR_INVALID_ARG_TYPE', 'The "min" and "max" arguments must be safe integers');
  }
  range(width > 0 && width < 2 ** 48, 'max', `greater than the value of "min" (${low}) by less than 2 ** 48`, high);
  const limit = 2 ** 48 - (2 ** 48 % width);
  for (;;) {
    const b = random(6);
    const drawn = ((b[0] * 256 + b[1]) * 256 + b[2]) * 2 ** 24 + (b[3] * 256 + b[4]) * 256 + b[5];
    if (drawn < limit) return answer(callback, undefined, low + (drawn % width));
  }
}

function timingSafeEqual(a, b) {
  const x = bytesOf(a);
  const y = bytesOf(b);
  if (!x || !y) throw coded(NativeTypeError, 'ERR_INVALID_ARG_TYPE', 'timingSafeEqual compares Buffers, TypedArrays, DataViews and ArrayBuffers');
  if (x.length !== y.length) {
    throw coded(NativeRangeError, 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', 'Input buffers must have the same byte length');
  }
  let difference = 0;
  for (let i = 0; i < x.length; i++) difference |= x[i] ^ y[i];
  return difference === 0;
}

// cryptoModule makes the module around the global crypto.
export function cryptoModule(crypto) {
  const module = {
    createHash, createHmac, getHashes, hash, randomBytes, randomInt, timingSafeEqual,
    getRandomValues: (array) => crypto.getRandomValues(array),
    randomFill(buffer, offset, size, callback) {
      const done = typeof offset === 'function' ? offset : typeof size === 'function' ? size : callback;
      argument(typeof done === 'function', 'callback', 'of type function', done);
      answer(done, null, fill(buffer, offset === done ? undefined : offset, size === done ? undefined : size));
    },
    randomFillSync: fill,
    randomUUID: () => crypto.randomUUID(),
    subtle: crypto.subtle,
    webcrypto: crypto,
  };
  refuse('crypto', module, [
    'createCipheriv', 'createDecipheriv', 'createSign', 'createVerify', 'sign', 'verify', 'generateKeyPair',
    'generateKeyPairSync', 'generateKeySync', 'pbkdf2', 'pbkdf2Sync', 'scrypt', 'scryptSync', 'hkdf', 'hkdfSync',
    'publicEncrypt', 'privateDecrypt', 'createPrivateKey', 'createPublicKey', 'createSecretKey', 'createDiffieHellman', 'createECDH',
  ], 'programs hold no keys and encrypt nothing; createHash, createHmac and the random functions are here, for the rest call a tool');
  return module;
}
