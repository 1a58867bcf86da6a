// The run's only randomness: ChaCha20 (RFC 8439, section 2.3), of a library, with the start record's seed as its key, a nonce of zeros
// and the block counter from 0. crypto draws from this stream; Math.random is seeded by it.

import { define, floor, global, imul, max, NativeUint8Array, own, padEnd, strSlice, typedArrayBuffer, typedArraySlice } from './intrinsics.js';
import { library } from './libraries.js';

const blockSize = 64; // bytes
let seed; // in hexadecimal
const aheadSize = 8 * blockSize; // one call of the library makes several blocks
let taken = 0; // bytes of the stream
const none = new NativeUint8Array(0);
let ahead = none; // bytes of the stream from the block first on
let first = 0;

// startRandom takes the seed: 32 bytes in hexadecimal. What is missing of it counts as zeros.
export function startRandom(frame) {
  seed = strSlice(padEnd(own(frame, 'seed') ?? '', 64, '0'), 0, 64);
}

// random returns n bytes. A draw begins at a whole word of the stream.
export function random(n) {
  if (taken + n > first * blockSize + ahead.length) {
    first = floor(taken / blockSize);
    ahead = new NativeUint8Array(max(taken % blockSize + n, aheadSize));
    library('keyStream', seed, first, typedArrayBuffer(ahead));
  }
  const from = taken - first * blockSize;
  taken += (n + 3) & ~3;
  const bytes = typedArraySlice(ahead, from, from + n);
  if (ahead.length > aheadSize) ahead = none;
  return bytes;
}

// Math.random is drawn in tight loops, where the cipher would be too slow. It is xoshiro128** (Blackman and Vigna, 2018),
// whose state is the next 16 bytes of the stream at the first draw.
let a = 0, b = 0, c = 0, d = 0;
let mixed = false;

function nextQuick() {
  if (!mixed) {
    mixed = true;
    const bytes = random(16);
    const word = (i) => bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24);
    a = word(0); b = word(4); c = word(8); d = word(12) | 1; // never all zero
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
