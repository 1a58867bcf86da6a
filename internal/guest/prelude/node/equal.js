// Deep equality as in util.isDeepStrictEqual and assert.deepStrictEqual, and its loose form.

import {
  getPrototypeOf, is, isArray, isEnumerable, list, mapForEach, mapGet, mapHas, mapSize, ownKeys, push, setForEach,
  setHas, setSize, typedArrayLength,
} from '../intrinsics.js';
import { kindOf, unbox } from '../brands.js';
import { bytesOf } from '../bytes.js';

const isObject = (value) => value !== null && typeof value === 'object';

// equal compares two values by their structure. Strict compares primitives with Object.is, and prototypes; loose with ==.
export function equal(a, b, strict, seen = list()) {
  if (is(a, b)) return true;
  if (!isObject(a) || !isObject(b)) {
    if (typeof a === 'number' && typeof b === 'number') return a === b || (!strict && a !== a && b !== b);
    return !strict && !isObject(a) && !isObject(b) && a == b; // eslint-disable-line eqeqeq -- loose by name
  }
  if (strict && getPrototypeOf(a) !== getPrototypeOf(b)) return false;
  const kind = kindOf(a);
  if (isArray(a) !== isArray(b) || kind !== kindOf(b)) return false;
  for (let i = 0; i < seen.length; i += 2) {
    if (seen[i] === a) return seen[i + 1] === b; // a cycle is equal to one of the same shape
  }
  push(seen, a, b);
  const same = contents(kind, a, b, strict, seen) && properties(a, b, strict, seen);
  seen.length -= 2;
  return same;
}

function contents(kind, a, b, strict, seen) {
  switch (kind) {
    case 'Date': case 'RegExp': return `${+a}${a}` === `${+b}${b}`;
    case 'Error': return a.name === b.name && a.message === b.message && equal(a.cause, b.cause, strict, seen);
    case 'Number': case 'String': case 'Boolean': case 'BigInt': case 'Symbol': return is(unbox(a, kind), unbox(b, kind));
    case 'ArrayBuffer': case 'DataView': return sameBytes(bytesOf(a), bytesOf(b));
    case 'Map': return sameMap(a, b, strict, seen);
    case 'Set': return sameSet(a, b, strict, seen);
    case 'Promise': case 'WeakMap': case 'WeakSet': return false;
    default: return !isArray(a) || a.length === b.length;
  }
}

function sameBytes(a, b) {
  if (typedArrayLength(a) !== typedArrayLength(b)) return false;
  for (let i = 0; i < typedArrayLength(a); i++) if (a[i] !== b[i]) return false;
  return true;
}

function sameMap(a, b, strict, seen) {
  if (mapSize(a) !== mapSize(b)) return false;
  let same = true;
  mapForEach(a, (value, key) => {
    if (!same) return;
    if (mapHas(b, key)) {
      same = equal(value, mapGet(b, key), strict, seen);
      return;
    }
    same = false;
    if (!isObject(key)) return;
    mapForEach(b, (otherValue, otherKey) => {
      same ||= equal(key, otherKey, strict, seen) && equal(value, otherValue, strict, seen);
    });
  });
  return same;
}

function sameSet(a, b, strict, seen) {
  if (setSize(a) !== setSize(b)) return false;
  let same = true;
  setForEach(a, (item) => {
    if (!same || setHas(b, item)) return;
    same = false;
    if (isObject(item)) setForEach(b, (other) => { same ||= equal(item, other, strict, seen); });
  });
  return same;
}

function visible(object) {
  const all = ownKeys(object);
  const kept = list();
  for (let i = 0; i < all.length; i++) if (isEnumerable(object, all[i])) push(kept, all[i]);
  return kept;
}

function properties(a, b, strict, seen) {
  const keys = visible(a);
  if (keys.length !== visible(b).length) return false;
  for (let i = 0; i < keys.length; i++) {
    if (!isEnumerable(b, keys[i]) || !equal(a[keys[i]], b[keys[i]], strict, seen)) return false;
  }
  return true;
}
