// Values of the program as JSON text: what it returns, and the arguments of its calls. It is JSON.stringify with the
// additions that programs expect (Map, Set, BigInt, Error), and with errors that name the place in the value.

import {
  create, define, getPrototypeOf, hasOwn, indexOf, isArray, jsonStringify, keys, list, mapForEach,
  NativeRangeError, NativeTypeError, NativeWeakMap, ObjectPrototype, push, regExpExec, setForEach, toNumber, toStr,
  typedArrayLength, weakGet, weakSet,
} from './intrinsics.js';
import { isClass, isIterator, kindOf, peek, unbox } from './brands.js';
import { bytesOf } from './bytes.js';
import { withBigInts } from './exact.js';
import { regExpBase } from './inspect/bases.js';
import { fits, quote } from './text.js';

// Deeper values are taken for a mistake. Other readers of JSON have limits too; the host's is 10,000.
const maxDepth = 500;

// encode returns value as JSON text. label names the value in errors ("output", "input"); limit is the most bytes it may
// have, 0 for any. What JSON has no text for (undefined; inside of value functions and symbols) is null.
export function encode(value, label, limit) {
  if (typeof value === 'function' || typeof value === 'symbol') throw noText(label, value);
  if (isPlain(value, limit)) {
    const text = jsonStringify(value) ?? 'null';
    if (fits(text, limit)) return text;
  }
  return encodeAny(value, label, limit);
}

// Values this deep are left to encodeAny, which finds cycles.
const plainDepth = 60;

// isPlain says whether JSON.stringify alone writes value as programs expect, within limit. Nearly every value is plain,
// and asking is several times cheaper than a replacer.
function isPlain(value, limit) {
  let size = 0;
  const plain = (item, depth) => {
    switch (typeof item) {
      case 'string':
        size += item.length;
        return !limit || size <= limit;
      case 'bigint':
        return false;
      case 'object':
        break;
      default:
        return true;
    }
    if (item === null) return true;
    if (depth === plainDepth) return false;
    if (isArray(item)) {
      for (let i = 0; i < item.length; i++) {
        if (!plain(item[i], depth + 1)) return false;
      }
      return true;
    }
    const prototype = getPrototypeOf(item);
    if (prototype !== ObjectPrototype && prototype !== null) return false;
    const names = keys(item);
    for (let i = 0; i < names.length; i++) {
      if (!plain(item[names[i]], depth + 1)) return false;
    }
    return true;
  };
  return plain(value, 0);
}

function noText(label, value) {
  if (typeof value === 'symbol') return new NativeTypeError(`${label} is a symbol: JSON cannot hold it; use a string`);
  const name = peek(value, 'name');
  const named = typeof name === 'string' && name !== '' ? ` ${name}` : '';
  return new NativeTypeError(isClass(value)
    ? `${label} is the class${named}: JSON cannot hold it; make an object of it, or use data`
    : `${label} is the function${named}: JSON cannot hold it; call it`);
}

const encodeAny = (value, label, limit) => withBigInts((sign) => encodeMarked(value, label, limit, sign));

function encodeMarked(value, label, limit, sign) {
  let bigInts = 0;
  let size = 0; // of the strings so far: a lower bound, to stop before a huge text is made
  // The objects that are open, outermost first, as JSON.stringify sees them (holders) and as the program made them
  // (originals), and the keys that lead from one to the next. The first holder is JSON.stringify's own.
  const holders = list();
  const originals = list();
  const path = list();

  function replacer(key, item) {
    while (holders.length > 0 && holders[holders.length - 1] !== this) {
      holders.length--;
      originals.length--;
      path.length--;
    }
    switch (typeof item) {
      case 'string':
        size += item.length;
        if (limit && size > limit) throw tooLarge(label, limit);
        return item;
      case 'bigint':
        bigInts++;
        return sign + toStr(item);
      case 'object':
        if (item !== null && specialKind(item) === 'BigInt') return replacer(key, unbox(item, 'BigInt'));
        return item === null ? null : open(this, key, item);
      default:
        return item;
    }
  }

  function open(holder, key, item) {
    if (holders.length === 0) {
      push(holders, holder);
      push(originals, undefined);
      push(path, undefined);
    }
    const at = indexOf(originals, item);
    push(path, isArray(holder) ? toNumber(key) : key);
    if (at > 0) {
      throw new NativeTypeError(
        `${place(label, path)} refers back to ${place(label, path, at + 1)}: JSON cannot hold a cycle; ` +
        'leave that property out',
      );
    }
    const kind = specialKind(item);
    if (kind === 'Promise') {
      throw new NativeTypeError(
        `${place(label, path)} is a Promise: await it first (await Promise.all([...]) for several)`,
      );
    }
    if (kind === undefined && !isArray(item) && isIterator(item)) {
      throw new NativeTypeError(`${place(label, path)} is an iterator: make an array of it first ([...iterator])`);
    }
    if (holders.length > maxDepth) throw new NativeRangeError(`${label} is nested more than ${maxDepth} levels deep`);
    const plain = kind === undefined ? item : convert(item, kind);
    push(holders, plain);
    push(originals, item);
    return plain;
  }

  const text = jsonStringify(value, replacer) ?? 'null';
  if (!fits(text, limit)) throw tooLarge(label, limit);
  return { text, count: bigInts };
}

const large = new NativeWeakMap(); // error of tooLarge -> true

function tooLarge(label, limit) {
  const error = new NativeRangeError(
    `${label} is more than ${limit} bytes as JSON: use a summary, or write the data to a file in /workspace and ` +
    'use its path',
  );
  weakSet(large, error, true);
  return error;
}

// isTooLarge reports whether encode threw an error because a value has more bytes than the limit.
export function isTooLarge(error) {
  return weakGet(large, error) === true;
}

// place writes a path: output.rows[2]["odd key"]. The first two holders, JSON.stringify's own and the value, have no key.
function place(label, path, length = path.length) {
  let text = label;
  for (let i = 2; i < length; i++) {
    const key = path[i];
    if (typeof key === 'number') text += `[${key}]`;
    else text += regExpExec(/^[A-Za-z_$][\w$]*$/, key) !== null ? `.${key}` : `[${quote(key)}]`;
  }
  return text;
}

// specialKind returns the kind of an object that JSON.stringify would not write as programs expect.
function specialKind(value) {
  if (isArray(value)) return undefined;
  const prototype = getPrototypeOf(value);
  return prototype === ObjectPrototype || prototype === null ? undefined : kindOf(value);
}

// convert returns an object of some kind as one that JSON.stringify knows.
function convert(value, kind) {
  switch (kind) {
    case 'Map': return plainMap(value);
    case 'Set': {
      const items = list();
      setForEach(value, (item) => push(items, item));
      return items;
    }
    case 'Error': return plainError(value);
    case 'RegExp': return regExpBase(value, 'RegExp', '');
    case 'TypedArray': return elements(value);
    case 'ArrayBuffer': return elements(bytesOf(value));
    default: return value;
  }
}

function elements(array) {
  const items = list();
  const length = typedArrayLength(array);
  for (let i = 0; i < length; i++) items[i] = array[i];
  return items;
}

// plainMap is an object if all keys are strings, else an array of pairs.
function plainMap(map) {
  const pairs = list();
  const object = create(null);
  let strings = true;
  mapForEach(map, (item, key) => {
    strings &&= typeof key === 'string';
    if (strings) define(object, key, item);
    push(pairs, [key, item]);
  });
  return strings ? object : pairs;
}

// plainError is an error's name, message, cause and own properties; its stack is left out.
function plainError(error) {
  const names = list();
  push(names, 'name', 'message');
  if (hasOwn(error, 'cause')) push(names, 'cause');
  if (hasOwn(error, 'errors')) push(names, 'errors');
  const rest = keys(error);
  for (let i = 0; i < rest.length; i++) {
    if (rest[i] !== 'stack' && indexOf(names, rest[i]) < 0) push(names, rest[i]);
  }
  const object = create(null);
  for (let i = 0; i < names.length; i++) define(object, names[i], error[names[i]]);
  return object;
}

// encodePlain returns what jsonParse returned as JSON text again. It consults own properties only.
export function encodePlain(value) {
  if (value === null || typeof value !== 'object') return typeof value === 'string' ? quote(value) : `${value}`;
  let text = '';
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) text += (i > 0 ? ',' : '') + encodePlain(value[i]);
    return `[${text}]`;
  }
  const names = keys(value);
  for (let i = 0; i < names.length; i++) {
    text += `${i > 0 ? ',' : ''}${quote(names[i])}:${encodePlain(value[names[i]])}`;
  }
  return `{${text}}`;
}
