// Every built-in that the prelude uses, captured before guest code runs. Guest code may replace Array.prototype.push or
// Promise.prototype.then, or put setters on Object.prototype; the prelude must notice none of it. So the prelude
//   - calls built-ins only through this file;
//   - keeps lists without a prototype (list()), because a[i] = x would run a setter on Array.prototype;
//   - writes descriptors and records as {__proto__: null, ...};
//   - uses no for-of, no array destructuring, no argument spread and no regular expression methods but exec,
//     all of which look things up on prototypes;
//   - writes frames as text (text.js), so that no toJSON is ever consulted.

export const global = globalThis;

const bind = Function.prototype.bind;
// uncurry(f)(self, ...args) is f.call(self, ...args) for a captured f.
export const uncurry = bind.bind(Function.prototype.call);

// methods returns the methods and getters of a prototype, uncurried.
function methods(prototype) {
  const all = { __proto__: null };
  for (const key of Reflect.ownKeys(prototype)) {
    const { value, get } = Reflect.getOwnPropertyDescriptor(prototype, key);
    if (typeof (value ?? get) === 'function') all[key] = uncurry(value ?? get);
  }
  return all;
}

export const { apply, construct, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
export const { create, freeze, is, keys, setPrototypeOf } = Object;
export const { isView } = ArrayBuffer;
export const { isArray } = Array;
export const { isFinite, isInteger, isNaN, isSafeInteger } = Number;
export const { fromCharCode, fromCodePoint } = String;
export const { decodeURIComponent, encodeURIComponent, escape, parseFloat, parseInt, unescape } = globalThis;
export const { abs, floor, imul, max, min, pow, round, sqrt, trunc } = Math;
export const { parse: jsonParse, stringify: jsonStringify } = JSON;
export const toStr = String;
export const toNumber = Number;

export const {
  BigInt: NativeBigInt, Date: NativeDate, Error: NativeError, Map: NativeMap, Promise: NativePromise, Proxy: NativeProxy, RangeError: NativeRangeError,
  RegExp: NativeRegExp,   ReferenceError: NativeReferenceError, Set: NativeSet, SyntaxError: NativeSyntaxError, TypeError: NativeTypeError,
  Uint8Array: NativeUint8Array, WeakMap: NativeWeakMap,
} = globalThis;
const ArrayPrototype = Array.prototype;
export const ErrorPrototype = Error.prototype;
export const FunctionPrototype = Function.prototype;
export const ObjectPrototype = Object.prototype;
export const TypedArray = getPrototypeOf(Uint8Array);
export const MapIteratorPrototype = getPrototypeOf(new Map().keys());
export const SetIteratorPrototype = getPrototypeOf(new Set().keys());

export const {
  asyncIterator: symbolAsyncIterator, iterator: symbolIterator, toPrimitive: symbolToPrimitive, toStringTag: symbolToStringTag,
} = Symbol;
export const symbolInspect = Symbol.for('nodejs.util.inspect.custom');

export const { hasOwnProperty: hasOwn, propertyIsEnumerable: isEnumerable, toString: objectToString } = methods(ObjectPrototype);
export const { toString: functionToString } = methods(FunctionPrototype);
export const { toFixed: numberToFixed, toString: numberToString, valueOf: numberValueOf } = methods(Number.prototype);
export const { valueOf: bigintValueOf } = methods(BigInt.prototype);
export const { valueOf: booleanValueOf } = methods(Boolean.prototype);
export const { toString: symbolToString, valueOf: symbolValueOf } = methods(Symbol.prototype);
export const { indexOf, join, push, slice: arraySlice, sort, splice } = methods(ArrayPrototype);
export const {
  charCodeAt, codePointAt, endsWith, includes: strIncludes, indexOf: strIndexOf, lastIndexOf, normalize, padEnd, padStart, repeat,
  slice: strSlice, split, startsWith, toLowerCase, toUpperCase, toWellFormed, trim, valueOf: stringValueOf,
} = methods(String.prototype);
export const { exec: regExpExec, flags: regExpFlags, source: regExpSource } = methods(RegExp.prototype);
export const {
  clear: mapClear, delete: mapDelete, forEach: mapForEach, get: mapGet, has: mapHas, set: mapSet, size: mapSize,
} = methods(Map.prototype);
export const { next: mapIteratorNext } = methods(MapIteratorPrototype);
export const { add: setAdd, delete: setDelete, forEach: setForEach, has: setHas, size: setSize } = methods(Set.prototype);
export const { next: setIteratorNext } = methods(SetIteratorPrototype);
export const { delete: weakDelete, get: weakGet, has: weakHas, set: weakSet } = methods(WeakMap.prototype);
export const { has: weakSetHas } = methods(WeakSet.prototype);
export const {
  getTime: dateGetTime, getUTCDate: dateDay, getUTCDay: dateWeekday, getUTCFullYear: dateYear, getUTCHours: dateHours,
  getUTCMilliseconds: dateMilliseconds, getUTCMinutes: dateMinutes, getUTCMonth: dateMonth, getUTCSeconds: dateSeconds, toISOString: dateToISOString, toString: dateToString, toTimeString: dateToTimeString,
} = methods(Date.prototype);
export const { byteLength: bufferByteLength, slice: bufferSlice } = methods(ArrayBuffer.prototype);
export const { buffer: dataViewBuffer, byteLength: dataViewByteLength, byteOffset: dataViewByteOffset } = methods(DataView.prototype);
export const {
  buffer: typedArrayBuffer, byteLength: typedArrayByteLength, byteOffset: typedArrayByteOffset, fill: typedArrayFill,
  indexOf: typedArrayIndexOf, length: typedArrayLength, set: typedArraySet, slice: typedArraySlice, subarray: typedArraySubarray,
  [Symbol.toStringTag]: typedArrayName, // undefined for what is no typed array
} = methods(TypedArray.prototype);
const { then: promiseThen } = methods(Promise.prototype);
// resolve and reject make promises of the engine's own class.
export const resolve = Promise.resolve.bind(Promise);
export const reject = Promise.reject.bind(Promise);

// list returns an empty array without a prototype: only captured methods work on it, and nothing intercepts it.
export function list() {
  return setPrototypeOf([], null);
}

// toArray turns a list into an ordinary array for guest code.
export function toArray(items) {
  return setPrototypeOf(items, ArrayPrototype);
}

// own reads an own property; a property of Object.prototype is not one.
export function own(object, key) {
  return hasOwn(object, key) ? object[key] : undefined;
}

// define puts a plain value on an object, whatever its prototype has.
export function define(object, key, value, enumerable = true) {
  return defineProperty(object, key, { __proto__: null, value, enumerable, writable: true, configurable: true });
}

// after calls ok or failed once promise settles. The promise must be one that guest code does not hold: its constructor
// is hidden, so that neither Promise.prototype.constructor nor Symbol.species is consulted.
export function after(promise, ok, failed) {
  defineProperty(promise, 'constructor', { __proto__: null, value: undefined });
  promiseThen(promise, ok, failed);
}

// attempt returns the promise that f returns, or a rejected one of what it throws: functions that programs await throw
// nothing else.
export function attempt(f) {
  try {
    return f();
  } catch (error) {
    return new NativePromise((_resolve, reject) => reject(error));
  }
}
