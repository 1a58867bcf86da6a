// The run's only randomness: ChaCha20 (RFC 8439, section 2.3) with the start record's seed as its key, a nonce of zeros
// and the block counter from 0. Math.random, crypto and randomUUID all draw from this one stream.

import {
  charCodeAt, define, global, NativeUint8Array, NativeUint32Array, own, parseInt, strSlice,
} from './intrinsics.js';

const rounds = 20;
let state; // the cipher's 16 words: constant, key, counter, nonce
let block; // the current key stream block, as words
let used = 16; // words of block that are taken

// startRandom takes the seed: 32 bytes in hexadecimal. A short or missing one counts as zeros.
export function startRandom(frame) {
  const seed = own(frame, 'seed') ?? '';
  state = new NativeUint32Array(16);
  block = new NativeUint32Array(16);
  const sigma = 'expand 32-byte k';
  for (let i = 0; i < 4; i++) {
    for (let j = 0; j < 4; j++) state[i] |= charCodeAt(sigma, 4 * i + j) << (8 * j);
  }
  for (let i = 0; i < 32; i++) {
    const byte = parseInt(strSlice(seed, 2 * i, 2 * i + 2), 16) || 0;
    state[4 + (i >> 2)] |= byte << (8 * (i & 3));
  }
  used = 16;
}

function quarter(x, a, b, c, d) {
  let t;
  x[a] += x[b]; t = x[d] ^ x[a]; x[d] = (t << 16) | (t >>> 16);
  x[c] += x[d]; t = x[b] ^ x[c]; x[b] = (t << 12) | (t >>> 20);
  x[a] += x[b]; t = x[d] ^ x[a]; x[d] = (t << 8) | (t >>> 24);
  x[c] += x[d]; t = x[b] ^ x[c]; x[b] = (t << 7) | (t >>> 25);
}

function nextBlock() {
  const x = block;
  for (let i = 0; i < 16; i++) x[i] = state[i];
  for (let i = 0; i < rounds; i += 2) {
    quarter(x, 0, 4, 8, 12); quarter(x, 1, 5, 9, 13); quarter(x, 2, 6, 10, 14); quarter(x, 3, 7, 11, 15);
    quarter(x, 0, 5, 10, 15); quarter(x, 1, 6, 11, 12); quarter(x, 2, 7, 8, 13); quarter(x, 3, 4, 9, 14);
  }
  for (let i = 0; i < 16; i++) x[i] += state[i];
  state[12]++;
  if (state[12] === 0) state[13]++; // the nonce's first word carries on, after 256 GiB
  used = 0;
}

function nextWord() {
  if (used === 16) nextBlock();
  return block[used++];
}

// random returns n bytes. Words are not split between draws.
export function random(n) {
  const bytes = new NativeUint8Array(n);
  for (let i = 0; i < n; i += 4) {
    const word = nextWord();
    for (let j = 0; j < 4 && i + j < n; j++) bytes[i + j] = word >>> (8 * j);
  }
  return bytes;
}

// installRandom makes Math.random 53 bits of the stream, as [0, 1).
export function installRandom() {
  const methods = { random: () => ((nextWord() >>> 5) * 0x4000000 + (nextWord() >>> 6)) / 0x20000000000000 };
  define(global.Math, 'random', methods.random, false);
}
