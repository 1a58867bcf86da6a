// The run's only randomness: ChaCha20 (RFC 8439, section 2.3) with the start record's seed as its key, a nonce of zeros
// and the block counter from 0. crypto draws from this stream; Math.random is seeded by it.

import {
  charCodeAt, define, global, imul, NativeUint8Array, NativeUint32Array, own, parseInt, strSlice,
} from './intrinsics.js';

const rounds = 20;
let state; // the cipher's 16 words: constant, key, counter, nonce
let block; // the current key stream block, as words
let used = 16; // words of block that are taken

let seed = ''; // in hexadecimal, until the first draw

// startRandom takes the seed: 32 bytes in hexadecimal. A short or missing one counts as zeros.
export function startRandom(frame) {
  seed = own(frame, 'seed') ?? '';
}

// begin sets the cipher up. Most programs draw nothing, so it waits for the first draw.
function begin() {
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
}

// nextBlock is the block function, its quarter rounds written out: variables are several times faster than an array.
function nextBlock() {
  if (!state) begin();
  const s = state;
  let x0 = s[0], x1 = s[1], x2 = s[2], x3 = s[3];
  let x4 = s[4], x5 = s[5], x6 = s[6], x7 = s[7];
  let x8 = s[8], x9 = s[9], x10 = s[10], x11 = s[11];
  let x12 = s[12], x13 = s[13], x14 = s[14], x15 = s[15];
  let t;
  for (let i = 0; i < rounds; i += 2) {
    x0 = (x0 + x4) | 0; t = x12 ^ x0; x12 = (t << 16) | (t >>> 16);
    x8 = (x8 + x12) | 0; t = x4 ^ x8; x4 = (t << 12) | (t >>> 20);
    x0 = (x0 + x4) | 0; t = x12 ^ x0; x12 = (t << 8) | (t >>> 24);
    x8 = (x8 + x12) | 0; t = x4 ^ x8; x4 = (t << 7) | (t >>> 25);
    x1 = (x1 + x5) | 0; t = x13 ^ x1; x13 = (t << 16) | (t >>> 16);
    x9 = (x9 + x13) | 0; t = x5 ^ x9; x5 = (t << 12) | (t >>> 20);
    x1 = (x1 + x5) | 0; t = x13 ^ x1; x13 = (t << 8) | (t >>> 24);
    x9 = (x9 + x13) | 0; t = x5 ^ x9; x5 = (t << 7) | (t >>> 25);
    x2 = (x2 + x6) | 0; t = x14 ^ x2; x14 = (t << 16) | (t >>> 16);
    x10 = (x10 + x14) | 0; t = x6 ^ x10; x6 = (t << 12) | (t >>> 20);
    x2 = (x2 + x6) | 0; t = x14 ^ x2; x14 = (t << 8) | (t >>> 24);
    x10 = (x10 + x14) | 0; t = x6 ^ x10; x6 = (t << 7) | (t >>> 25);
    x3 = (x3 + x7) | 0; t = x15 ^ x3; x15 = (t << 16) | (t >>> 16);
    x11 = (x11 + x15) | 0; t = x7 ^ x11; x7 = (t << 12) | (t >>> 20);
    x3 = (x3 + x7) | 0; t = x15 ^ x3; x15 = (t << 8) | (t >>> 24);
    x11 = (x11 + x15) | 0; t = x7 ^ x11; x7 = (t << 7) | (t >>> 25);
    x0 = (x0 + x5) | 0; t = x15 ^ x0; x15 = (t << 16) | (t >>> 16);
    x10 = (x10 + x15) | 0; t = x5 ^ x10; x5 = (t << 12) | (t >>> 20);
    x0 = (x0 + x5) | 0; t = x15 ^ x0; x15 = (t << 8) | (t >>> 24);
    x10 = (x10 + x15) | 0; t = x5 ^ x10; x5 = (t << 7) | (t >>> 25);
    x1 = (x1 + x6) | 0; t = x12 ^ x1; x12 = (t << 16) | (t >>> 16);
    x11 = (x11 + x12) | 0; t = x6 ^ x11; x6 = (t << 12) | (t >>> 20);
    x1 = (x1 + x6) | 0; t = x12 ^ x1; x12 = (t << 8) | (t >>> 24);
    x11 = (x11 + x12) | 0; t = x6 ^ x11; x6 = (t << 7) | (t >>> 25);
    x2 = (x2 + x7) | 0; t = x13 ^ x2; x13 = (t << 16) | (t >>> 16);
    x8 = (x8 + x13) | 0; t = x7 ^ x8; x7 = (t << 12) | (t >>> 20);
    x2 = (x2 + x7) | 0; t = x13 ^ x2; x13 = (t << 8) | (t >>> 24);
    x8 = (x8 + x13) | 0; t = x7 ^ x8; x7 = (t << 7) | (t >>> 25);
    x3 = (x3 + x4) | 0; t = x14 ^ x3; x14 = (t << 16) | (t >>> 16);
    x9 = (x9 + x14) | 0; t = x4 ^ x9; x4 = (t << 12) | (t >>> 20);
    x3 = (x3 + x4) | 0; t = x14 ^ x3; x14 = (t << 8) | (t >>> 24);
    x9 = (x9 + x14) | 0; t = x4 ^ x9; x4 = (t << 7) | (t >>> 25);
  }
  block[0] = x0 + s[0]; block[1] = x1 + s[1];
  block[2] = x2 + s[2]; block[3] = x3 + s[3];
  block[4] = x4 + s[4]; block[5] = x5 + s[5];
  block[6] = x6 + s[6]; block[7] = x7 + s[7];
  block[8] = x8 + s[8]; block[9] = x9 + s[9];
  block[10] = x10 + s[10]; block[11] = x11 + s[11];
  block[12] = x12 + s[12]; block[13] = x13 + s[13];
  block[14] = x14 + s[14]; block[15] = x15 + s[15];
  s[12]++;
  if (s[12] === 0) s[13]++; // the nonce's first word carries on, after 256 GiB
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

// Math.random is drawn in tight loops, where the cipher would be too slow. It is xoshiro128** (Blackman and Vigna, 2018),
// whose state is the next 16 bytes of the stream at the first draw.
let a = 0, b = 0, c = 0, d = 0;
let mixed = false;

function nextQuick() {
  if (!mixed) {
    mixed = true;
    a = nextWord() | 0; b = nextWord() | 0; c = nextWord() | 0; d = nextWord() | 1; // never all zero
  }
  let word = imul(b, 5);
  word = imul((word << 7) | (word >>> 25), 9);
  const t = b << 9;
  c ^= a; d ^= b; b ^= c; a ^= d; c ^= t;
  d = (d << 11) | (d >>> 21);
  return word >>> 0;
}

// installRandom makes Math.random 53 bits, as [0, 1).
export function installRandom() {
  const methods = { random: () => ((nextQuick() >>> 5) * 0x4000000 + (nextQuick() >>> 6)) / 0x20000000000000 };
  define(global.Math, 'random', methods.random, false);
}
