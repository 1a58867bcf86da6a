// Hashes and HMACs of bytes.

import {
  NativeUint8Array, regExpExec, toLowerCase, typedArrayBuffer, typedArrayByteLength, typedArrayByteOffset,
} from './intrinsics.js';
import { guarded, library } from './libraries.js';

// spelled are the algorithms as programs spell them: with "-", "sha2-", "rsa-" or "ssl3-".
const spelled = /^(?:(?:rsa-|ssl3-)?(md5|sha1)|(?:rsa-)?(sha(?:224|256|384|512))|sha2?-(224|256|384|512)|sha-(1)|(sha512-(?:224|256)))$/;

export const hashNames = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'sha512-224', 'sha512-256'];

// hashName returns the algorithm that a program means, undefined for one that is not here.
export function hashName(name) {
  const m = regExpExec(spelled, toLowerCase(name));
  return m === null ? undefined : m[1] ?? m[2] ?? m[5] ?? `sha${m[3] ?? m[4]}`;
}

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
