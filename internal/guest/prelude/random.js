// The run's only randomness: ChaCha20 (RFC 8439, section 2.3), of a library, with the start record's seed as its key, a nonce of zeros
// and the block counter from 0. crypto draws from this stream; Math.random is seeded by it.

import { define, floor, global, imul, NativeUint8Array, own, padEnd, strSlice, typedArrayBuffer, typedArraySlice } from './intrinsics.js';
import { library } from './libraries.js';

const blockSize = 64; // bytes
let seed; // in hexadecimal
let taken = 0; // bytes of the stream

// startRandom takes the seed: 32 bytes in hexadecimal. What is missing of it counts as zeros.
export function startRandom(frame) {
  seed = strSlice(padEnd(own(frame, 'seed') ?? '', 64, '0'), 0, 64);
}

// random returns n bytes. A draw begins at a whole word of the stream.
export function random(n) {
  const skip = taken % blockSize;
  const bytes = new NativeUint8Array(skip + n);
  library('keyStream', seed, floor(taken / blockSize), typedArrayBuffer(bytes));
  taken += (n + 3) & ~3;
  return typedArraySlice(bytes, skip);
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
