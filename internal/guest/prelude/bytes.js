// Bytes on their way to and from the host: base64 in JSON. The engine's own conversion is used where there is one.

import {
  apply, getOwnPropertyDescriptor, NativeUint8Array, strIndexOf, typedArrayLength, uncurry,
} from './intrinsics.js';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

const nativeFrom = getOwnPropertyDescriptor(NativeUint8Array, 'fromBase64')?.value;
const nativeTo = getOwnPropertyDescriptor(NativeUint8Array.prototype, 'toBase64')?.value;

// toBase64 encodes a Uint8Array.
export const toBase64 = nativeTo ? uncurry(nativeTo) : (bytes) => {
  const length = typedArrayLength(bytes);
  let text = '';
  for (let i = 0; i < length; i += 3) {
    const group = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    text += alphabet[group >> 18] + alphabet[(group >> 12) & 63];
    text += i + 1 < length ? alphabet[(group >> 6) & 63] : '=';
    text += i + 2 < length ? alphabet[group & 63] : '=';
  }
  return text;
};

// fromBase64 decodes what the host sent into a Uint8Array.
export const fromBase64 = nativeFrom ? (text) => apply(nativeFrom, NativeUint8Array, [text]) : (text) => {
  let length = text.length;
  while (length > 0 && text[length - 1] === '=') length--;
  const bytes = new NativeUint8Array((length * 3) >> 2);
  let group = 0;
  let bits = 0;
  let at = 0;
  for (let i = 0; i < length; i++) {
    group = (group << 6) | strIndexOf(alphabet, text[i]);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = (group >> bits) & 255;
    }
  }
  return bytes;
};
