// JSON with every digit: JSON.parse and JSON.stringify as programs have them. An integer beyond 2^53 is a BigInt, and is written as its
// digits; a number beyond the range of a double is a string, as it was written.

import {
  apply, define, defineProperty, deleteProperty, fromCharCode, global, isArray, isFinite, jsonParse, jsonStringify, keys, NativeBigInt, NativeTypeError,
  padStart, parseInt, regExpExec, startsWith, strIncludes, strIndexOf, strSlice, toNumber, toStr, toUpperCase,
} from './intrinsics.js';
import { inherits, kindOf, unbox } from './brands.js';
import { look, sendNote } from './calls.js';
import { replace, test } from './text.js';

// A text without a match has no number that a double does not hold: it takes 16 digits or an exponent of three.
const mayBeInexact = /[\d.]{16}|[eE][+-]?\d{3}/;

const maxSafe = '9007199254740991';

// decimal is a number as its significant digits and the power of ten of the last one: two numbers with the same value give the same text.
function decimal(text) {
  const number = regExpExec(/^(-?)(\d+)(?:\.(\d*))?(?:[eE](.*))?$/, text);
  const fraction = number[3] ?? '';
  const digits = regExpExec(/^0*(\d*?)(0*)$/, number[2] + fraction);
  return digits[1] === '' ? '0' : `${number[1]}${digits[1]}e${toNumber(number[4] ?? '0') + digits[2].length - fraction.length}`;
}

// kindName says how a program has a number: as a number ('exact', or 'rounded' if that has another value), as a BigInt ('big') or as a
// string ('huge').
function kindName(text) {
  const digits = text[0] === '-' ? strSlice(text, 1) : text;
  if (!test(/[.eE]/, digits)) {
    return digits.length > maxSafe.length || digits.length === maxSafe.length && digits > maxSafe ? 'big' : 'exact';
  }
  const number = toNumber(text);
  if (!isFinite(number)) return 'huge';
  return decimal(text) === decimal(toStr(number)) ? 'exact' : 'rounded';
}

// mark replaces the numbers of a JSON text that a double does not hold by strings that begin with a mark. It returns the text, how many it
// has replaced, and whether one is rounded.
function mark(text, sign) {
  let out = '';
  let count = 0;
  let rounded = false;
  let done = 0;
  for (let at = 0; at < text.length;) {
    let end = strIndexOf(text, '"', at);
    if (end < 0) end = text.length;
    const between = strSlice(text, at, end);
    if (test(mayBeInexact, between)) {
      out += strSlice(text, done, at) + replace(/-?\d[\d.eE+-]*/g, between, (m) => {
        const number = m[0];
        const kind = kindName(number);
        if (kind === 'rounded') rounded = true;
        if (kind !== 'big' && kind !== 'huge') return number;
        count++;
        return `"${sign}${number}"`;
      });
      done = end;
    }
    at = end + 1;
    for (let escaped = true; escaped && end < text.length;) { // to the end of the string
      at = strIndexOf(text, '"', at) + 1;
      let slashes = 0;
      while (text[at - 2 - slashes] === '\\') slashes++;
      escaped = slashes % 2 === 1;
    }
  }
  return { __proto__: null, text: out + strSlice(text, done), count, rounded };
}

// inexact says what a valid JSON text has that a double does not hold: '' for nothing, 'rounded', or another text for what has to be looked at.
// The host does that: the engine's expressions take longer than parsing.
const inexact = (text) => look(text) ?? '';

const exactly = (text) => (test(/[.eE]/, text) ? text : NativeBigInt(text));

// markFor is a character that no string of a JSON text has; undefined if the text has each of the thousand that are tried.
function markFor(text) {
  for (let n = 0; n < 1000; n++) {
    const hex = `e${padStart(toStr(n), 3, '0')}`; // one of private use, whose escape has one letter
    const sign = fromCharCode(parseInt(hex, 16));
    if (!strIncludes(text, sign) && !strIncludes(text, `u${hex}`) && !strIncludes(text, `u${toUpperCase(hex)}`)) return sign;
  }
  return undefined;
}

// parseMarked parses a valid JSON text to {value, count, rounded}: count is how many numbers are none in the value, rounded whether one has
// another value.
function parseMarked(text) {
  const sign = markFor(text);
  if (sign === undefined) return { __proto__: null, value: jsonParse(text), count: 0, rounded: true };
  const { text: marked, count, rounded } = mark(text, sign);
  const value = count === 0 ? jsonParse(text) : jsonParse(marked, (_key, item) => (
    typeof item === 'string' && startsWith(item, sign) ? exactly(strSlice(item, 1)) : item
  ));
  return { __proto__: null, value, count, rounded };
}

// parseExact parses a frame of the host that says that it has numbers which no double holds.
export const parseExact = (text) => parseMarked(text).value;

// revive is what JSON.parse does with a reviver.
function revive(holder, key, reviver) {
  const value = holder[key];
  if (typeof value === 'object' && value !== null) {
    const names = keys(value);
    for (let i = 0; i < names.length; i++) {
      const item = revive(value, names[i], reviver);
      if (item === undefined) deleteProperty(value, names[i]);
      else define(value, names[i], item);
    }
  }
  return apply(reviver, holder, [key, value]);
}

let noted = false;

// parse is JSON.parse.
export function parse(text, reviver) {
  if (typeof text !== 'string') text = `${text}`;
  const plain = jsonParse(text);
  const has = text.length < 5 ? '' : inexact(text);
  if (has === '') return typeof reviver === 'function' ? jsonParse(text, reviver) : plain;
  const parsed = has === 'rounded' ? { __proto__: null, value: plain, rounded: true } : parseMarked(text);
  if (parsed.rounded && !noted) {
    noted = true;
    sendNote('JSON.parse: a number has more digits than a JavaScript number holds, and is rounded; the text has all of them');
  }
  return typeof reviver === 'function' ? revive({ '': parsed.value }, '', reviver) : parsed.value;
}

const same = (text) => text;

// withBigInts returns the JSON text that write makes, in which BigInts are strings that begin with a mark, with their digits in their
// place. write takes the mark, and returns {text, count}; last changes the text that has the marks.
export function withBigInts(write, last = same) {
  for (let sign = '#'; ; sign += '#') {
    const { text, count } = write(sign);
    if (text === undefined || count === 0) return text;
    let found = 0;
    const digits = (m) => {
      if (m[1] !== sign) return m[0];
      found++;
      return m[2];
    };
    const out = replace(/"(#+)(-?\d+)"/g, text, digits);
    if (found !== count) continue; // a string of the value looks like a mark
    return last === same ? out : replace(/"(#+)(-?\d+)"/g, last(text), digits);
  }
}

// refusesBigInt says whether an error is the engine's about a BigInt.
const refusesBigInt = (error) => inherits(error, NativeTypeError.prototype) && test(/BigInt/i, `${error.message}`);

// stringify is JSON.stringify.
export function stringify(value, replacer, space) {
  try {
    return jsonStringify(value, replacer, space);
  } catch (error) {
    if (!refusesBigInt(error)) throw error;
  }
  const list = isArray(replacer);
  return withBigInts((sign) => {
    let count = 0;
    const text = jsonStringify(value, function mark(key, item) {
      if (typeof replacer === 'function') item = apply(replacer, this, [key, item]);
      if (typeof item === 'object' && item !== null && kindOf(item) === 'BigInt') item = unbox(item, 'BigInt');
      if (typeof item !== 'bigint') return item;
      count++;
      return sign + toStr(item);
    }, list ? undefined : space);
    return { text, count };
  }, list ? (text) => jsonStringify(jsonParse(text), replacer, space) : undefined);
}

// installJSON replaces the functions of JSON.
export function installJSON() {
  const methods = { parse, stringify };
  for (const name in methods) define(global.JSON, name, methods[name], false);
  defineProperty(stringify, 'length', { __proto__: null, value: 3, configurable: true });
}
