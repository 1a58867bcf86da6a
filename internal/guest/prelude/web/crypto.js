// crypto: randomUUID and getRandomValues over the run's seeded generator, so that two runs with the same journal draw the
// same values, and the hashes of crypto.subtle.
import { digest, hashName } from '../hash.js';
import { DOMException } from './domexception.js';
import {
  create, defineProperty, reject, resolve, strIndexOf, strSlice, toStr, toUpperCase, typedArrayBuffer, typedArrayName, typedArraySet,
} from '../intrinsics.js';
import { bytesOf, toHex } from '../bytes.js';
import { method, tag } from './shapes.js';

const QUOTA = 65536; // bytes in one call, as the Web Cryptography API has it
const INTEGERS = ' Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array' +
  ' BigInt64Array BigUint64Array ';

export function cryptoObject(ctx) {
  class Crypto {
    getRandomValues(array) {
      const kind = typedArrayName(array);
      if (kind === undefined || strIndexOf(INTEGERS, ` ${kind} `) < 0) {
        throw new DOMException('getRandomValues fills an integer typed array', 'TypeMismatchError');
      }
      const bytes = bytesOf(array);
      if (bytes.length > QUOTA) {
        throw new DOMException(`getRandomValues fills at most ${QUOTA} bytes, not ${bytes.length}`, 'QuotaExceededError');
      }
      typedArraySet(bytes, ctx.random(bytes.length));
      return array;
    }

    randomUUID() {
      const b = ctx.random(16);
      b[6] = (b[6] & 0x0f) | 0x40;
      b[8] = (b[8] & 0x3f) | 0x80;
      const hex = toHex(b);
      return `${strSlice(hex, 0, 8)}-${strSlice(hex, 8, 12)}-${strSlice(hex, 12, 16)}-${strSlice(hex, 16, 20)}-${strSlice(hex, 20)}`;
    }
  }
  const subtle = subtleObject();
  defineProperty(Crypto.prototype, 'subtle', { __proto__: null, get: () => subtle, enumerable: true, configurable: true });
  tag(Crypto, 'Crypto');
  return create(Crypto.prototype);
}

// The digests of the Web Cryptography API; md5 is not one.
const DIGESTS = { __proto__: null, 'SHA-1': true, 'SHA-256': true, 'SHA-384': true, 'SHA-512': true };

// What needs keys.
const KEYED = [
  'decrypt', 'deriveBits', 'deriveKey', 'encrypt', 'exportKey', 'generateKey', 'importKey', 'sign', 'unwrapKey', 'verify', 'wrapKey',
];

const unsupported = (message) => reject(new DOMException(message, 'NotSupportedError'));

// subtleObject makes crypto.subtle, of which digest is a function of its input alone.
function subtleObject() {
  class SubtleCrypto {
    digest(algorithm, data) {
      try {
        const given = toStr(typeof algorithm === 'object' && algorithm !== null ? algorithm.name : algorithm);
        const name = toUpperCase(given);
        if (!DIGESTS[name]) {
          return unsupported(`Unrecognized algorithm name '${strSlice(given, 0, 40)}'; use SHA-1, SHA-256, SHA-384 or SHA-512`);
        }
        const bytes = bytesOf(data);
        if (!bytes) return reject(new TypeError('crypto.subtle.digest takes an ArrayBuffer or a view of one; for text use new TextEncoder().encode(text)'));
        return resolve(typedArrayBuffer(digest(hashName(name), bytes)));
      } catch (error) {
        return reject(error);
      }
    }
  }
  for (let i = 0; i < KEYED.length; i++) {
    const name = KEYED[i];
    const refused = {
      [name]: () => unsupported(`crypto.subtle.${name} is not available in the sandbox: programs hold no keys. ` +
        "For an HMAC use createHmac('sha256', key) of the module crypto"),
    };
    method(SubtleCrypto.prototype, name, refused[name]);
  }
  tag(SubtleCrypto, 'SubtleCrypto');
  return create(SubtleCrypto.prototype);
}
