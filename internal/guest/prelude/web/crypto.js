// crypto: randomUUID and getRandomValues over the run's seeded generator, and nothing else. Two runs with the same
// journal draw the same values.
import { DOMException } from './domexception.js';
import { bytesOf, create, numString, padStart, slice, strIndexOf, tag, typedSet, typedTag } from './intrinsics.js';

const QUOTA = 65536; // bytes in one call, as the Web Cryptography API has it
const INTEGERS = ' Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array' +
  ' BigInt64Array BigUint64Array ';

export function cryptoObject(ctx) {
  class Crypto {
    getRandomValues(array) {
      const kind = typedTag(array);
      if (kind === undefined || strIndexOf(INTEGERS, ` ${kind} `) < 0) {
        throw new DOMException('getRandomValues fills an integer typed array', 'TypeMismatchError');
      }
      const bytes = bytesOf(array);
      if (bytes.length > QUOTA) {
        throw new DOMException(`getRandomValues fills at most ${QUOTA} bytes, not ${bytes.length}`, 'QuotaExceededError');
      }
      typedSet(bytes, ctx.random(bytes.length));
      return array;
    }

    randomUUID() {
      const b = ctx.random(16);
      b[6] = (b[6] & 0x0f) | 0x40;
      b[8] = (b[8] & 0x3f) | 0x80;
      let hex = '';
      for (let i = 0; i < 16; i++) hex += padStart(numString(b[i], 16), 2, '0');
      return `${slice(hex, 0, 8)}-${slice(hex, 8, 12)}-${slice(hex, 12, 16)}-${slice(hex, 16, 20)}-${slice(hex, 20)}`;
    }
  }
  tag(Crypto, 'Crypto');
  return create(Crypto.prototype);
}
