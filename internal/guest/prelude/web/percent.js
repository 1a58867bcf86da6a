// Percent-encoding as the URL Standard has it. A set is the expression of what must be encoded.
import { Bytes, numString, padStart, replace, strIndexOf, subarray, upper } from './intrinsics.js';
import { decode, encode } from './utf8.js';

export const C0 = /[^ -~]+/g;
export const FRAGMENT = /[^!#-;=?-_a-~]+/g;
export const QUERY = /[^!$-;=?-~]+/g;
export const SPECIAL_QUERY = /[^!$-&(-;=?-~]+/g;
export const PATH = /[^!$-;=@-_a-z|~]+/g; // '^' stays, as in Node.js 20
export const USERINFO = /[^!$-.0-9A-Z_a-z~]+/g;
const FORM = /[^*\-.0-9A-Z_a-z]+/g;

const hex = (c) => '%' + padStart(upper(numString(c, 16)), 2, '0');

// percentEncode encodes the UTF-8 of what is in set.
export function percentEncode(text, set) {
  return replace(set, text, (m) => {
    let out = '';
    const bytes = encode(m[0]);
    for (let i = 0; i < bytes.length; i++) out += hex(bytes[i]);
    return out;
  });
}

// percentBytes undoes percent-encoding; a '%' that two hex digits do not follow stays.
export function percentBytes(text) {
  const bytes = encode(text);
  const out = new Bytes(bytes.length);
  let n = 0;
  for (let i = 0; i < bytes.length; i++) {
    const c = bytes[i];
    const value = c === 0x25 && i + 2 < bytes.length ? digit(bytes[i + 1]) * 16 + digit(bytes[i + 2]) : NaN;
    if (value >= 0) {
      out[n++] = value;
      i += 2;
    } else out[n++] = c;
  }
  return subarray(out, 0, n);
}

const digit = (c) =>
  (c >= 48 && c <= 57 ? c - 48 : c >= 65 && c <= 70 ? c - 55 : c >= 97 && c <= 102 ? c - 87 : NaN);

export const percentDecode = (text) => (strIndexOf(text, '%') < 0 ? text : decode(percentBytes(text), false));

// formEncode and formDecode are application/x-www-form-urlencoded for one name or value.
export const formEncode = (text) => replace(/%20/g, percentEncode(text, FORM), () => '+');
export const formDecode = (text) =>
  percentDecode(strIndexOf(text, '+') < 0 ? text : replace(/\+/g, text, () => ' '));
