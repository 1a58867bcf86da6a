// Hashes and HMACs of bytes.

import {
  NativeUint8Array, toLowerCase, typedArrayBuffer, typedArrayByteLength, typedArrayByteOffset,
} from './intrinsics.js';
import { guarded, library } from './libraries.js';

// names are the algorithms as programs spell them, without case, "-" and "rsa-".
const names = {
  __proto__: null, md5: 'md5', sha1: 'sha1', sha224: 'sha224', sha256: 'sha256', sha384: 'sha384', sha512: 'sha512',
  'sha-1': 'sha1', 'sha-224': 'sha224', 'sha-256': 'sha256', 'sha-384': 'sha384', 'sha-512': 'sha512',
  'sha2-224': 'sha224', 'sha2-256': 'sha256', 'sha2-384': 'sha384', 'sha2-512': 'sha512', 'ssl3-md5': 'md5',
  'ssl3-sha1': 'sha1', 'rsa-md5': 'md5', 'rsa-sha1': 'sha1', 'rsa-sha224': 'sha224', 'rsa-sha256': 'sha256',
  'rsa-sha384': 'sha384', 'rsa-sha512': 'sha512', 'sha512-224': 'sha512-224', 'sha512-256': 'sha512-256',
};

export const hashNames = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'sha512-224', 'sha512-256'];

// hashName returns the algorithm that a program means, undefined for one that is not here.
export const hashName = (name) => names[toLowerCase(name)];

// startHash returns {update(bytes), digest(), copy()} of an algorithm; with a key, bytes too, of its HMAC.
export function startHash(name, key) {
  return wrap(key === undefined
    ? library('hash', name)
    : library('hash', name, typedArrayBuffer(key), typedArrayByteOffset(key), typedArrayByteLength(key)));
}

const wrap = (state) => ({
  __proto__: null,
  update(bytes) {
    guarded(state.update)(typedArrayBuffer(bytes), typedArrayByteOffset(bytes), typedArrayByteLength(bytes));
  },
  digest() {
    const out = new NativeUint8Array(state.size);
    guarded(state.digest)(typedArrayBuffer(out));
    return out;
  },
  copy: () => wrap(guarded(state.copy)()),
});

// digest returns the hash of bytes.
export function digest(name, bytes) {
  const state = startHash(name);
  state.update(bytes);
  return state.digest();
}
