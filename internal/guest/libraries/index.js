// The libraries of the guest runtime. They run in a realm of their own, which programs cannot reach: whatever a program
// overwrites is not theirs. Text and numbers pass, other values as JSON text, and the caller's ArrayBuffers; no object of
// this realm reaches a program, and no other object of a program this realm.

import { hmac } from '@noble/hashes/hmac.js';
import { md5, sha1 } from '@noble/hashes/legacy.js';
import { sha224, sha256, sha384, sha512, sha512_224, sha512_256 } from '@noble/hashes/sha2.js';
import legacyURL from 'url/url.js';

// What shows the machine or the collector has no use here.
for (const name of ['Atomics', 'FinalizationRegistry', 'SharedArrayBuffer', 'WeakRef', 'WebAssembly', 'console']) {
  delete globalThis[name];
}
delete Math.random;
Object.defineProperty(Error, 'prepareStackTrace', { value: undefined, writable: false, configurable: false });

const algorithms = {
  __proto__: null, md5, sha1, sha224, sha256, sha384, sha512, 'sha512-224': sha512_224, 'sha512-256': sha512_256,
};

// wrap makes functions of a hash: bytes are an ArrayBuffer and a range in it.
const wrap = (state) => ({
  __proto__: null,
  size: state.outputLen,
  update: (buffer, offset, length) => { state.update(new Uint8Array(buffer, offset, length)); },
  digest: (buffer) => { state.digestInto(new Uint8Array(buffer)); },
  copy: () => wrap(state.clone()),
});

// hashes are the algorithms' names in Node's spelling.
export const hashes = Object.keys(algorithms).join(' ');

// hash begins a hash, or with the key of buffer an HMAC.
export function hash(name, buffer, offset, length) {
  const algorithm = algorithms[name];
  return wrap(buffer === undefined ? algorithm.create() : hmac.create(algorithm, new Uint8Array(buffer, offset, length)));
}

// parseURL, formatURL and resolveURL are those of Node's url module from before URL. The first returns, the second takes
// the properties as JSON; a query is text.
export function parseURL(text, slashesDenoteHost) {
  return JSON.stringify(legacyURL.parse(text, false, slashesDenoteHost));
}

export function formatURL(properties) {
  return legacyURL.format(JSON.parse(properties));
}

export function resolveURL(from, to) {
  return legacyURL.resolve(from, to);
}
