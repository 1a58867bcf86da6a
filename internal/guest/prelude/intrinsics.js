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
const getter = (object, key) => uncurry(Reflect.getOwnPropertyDescriptor(object, key).get);

export const { apply, construct, defineProperty, deleteProperty, getPrototypeOf, ownKeys } = Reflect;
export const { isView } = ArrayBuffer;
export const getOwnPropertyDescriptor = Reflect.getOwnPropertyDescriptor;
export const { create, freeze, is, keys, setPrototypeOf } = Object;
export const hasOwn = uncurry(Object.prototype.hasOwnProperty);
export const isEnumerable = uncurry(Object.prototype.propertyIsEnumerable);
export const objectToString = uncurry(Object.prototype.toString);
export const functionToString = uncurry(Function.prototype.toString);

export const NativeDate = Date;
export const NativeError = Error;
export const NativeMap = Map;
export const NativePromise = Promise;
export const NativeProxy = Proxy;
export const NativeRangeError = RangeError;
export const NativeReferenceError = ReferenceError;
export const NativeSyntaxError = SyntaxError;
export const NativeTypeError = TypeError;
export const NativeUint8Array = Uint8Array;
export const NativeUint32Array = Uint32Array;
export const NativeWeakMap = WeakMap;
const ArrayPrototype = Array.prototype;
export const ErrorPrototype = Error.prototype;
export const FunctionPrototype = Function.prototype;
export const ObjectPrototype = Object.prototype;
export const TypedArray = getPrototypeOf(Uint8Array);

export const toStr = String;
export const toNumber = Number;
export const { isFinite, isNaN, isSafeInteger } = Number;
export const { decodeURIComponent, encodeURIComponent, parseFloat, parseInt } = globalThis;
export const { floor, max, min, round, sqrt, trunc } = Math;
export const numberToString = uncurry(Number.prototype.toString);
export const numberToFixed = uncurry(Number.prototype.toFixed);

export const isArray = Array.isArray;
export const push = uncurry(Array.prototype.push);
export const join = uncurry(Array.prototype.join);
export const sort = uncurry(Array.prototype.sort);
export const indexOf = uncurry(Array.prototype.indexOf);

export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const endsWith = uncurry(String.prototype.endsWith);
export const fromCharCode = String.fromCharCode;
export const strIncludes = uncurry(String.prototype.includes);
export const strIndexOf = uncurry(String.prototype.indexOf);
export const lastIndexOf = uncurry(String.prototype.lastIndexOf);
export const padEnd = uncurry(String.prototype.padEnd);
export const padStart = uncurry(String.prototype.padStart);
export const repeat = uncurry(String.prototype.repeat);
export const startsWith = uncurry(String.prototype.startsWith);
export const strSlice = uncurry(String.prototype.slice);
export const toWellFormed = uncurry(String.prototype.toWellFormed);
export const toLowerCase = uncurry(String.prototype.toLowerCase);
export const regExpExec = uncurry(RegExp.prototype.exec);

export const jsonParse = JSON.parse;
export const jsonStringify = JSON.stringify;

export const mapGet = uncurry(Map.prototype.get);
export const mapSet = uncurry(Map.prototype.set);
export const mapHas = uncurry(Map.prototype.has);
export const mapDelete = uncurry(Map.prototype.delete);
export const mapForEach = uncurry(Map.prototype.forEach);
export const MapIteratorPrototype = getPrototypeOf(new Map().keys());
export const mapIteratorNext = uncurry(MapIteratorPrototype.next);
export const SetIteratorPrototype = getPrototypeOf(new Set().keys());
export const setIteratorNext = uncurry(SetIteratorPrototype.next);
export const mapSize = getter(Map.prototype, 'size');
export const setHas = uncurry(Set.prototype.has);
export const setForEach = uncurry(Set.prototype.forEach);
export const setSize = getter(Set.prototype, 'size');
export const weakDelete = uncurry(WeakMap.prototype.delete);
export const weakGet = uncurry(WeakMap.prototype.get);
export const weakSet = uncurry(WeakMap.prototype.set);
export const weakHas = uncurry(WeakMap.prototype.has);
export const weakSetHas = uncurry(WeakSet.prototype.has);

export const dateToISOString = uncurry(Date.prototype.toISOString);
export const dateGetTime = uncurry(Date.prototype.getTime);
export const dateToString = uncurry(Date.prototype.toString);
export const dateToTimeString = uncurry(Date.prototype.toTimeString);

export const bufferByteLength = getter(ArrayBuffer.prototype, 'byteLength');
export const dataViewBuffer = getter(DataView.prototype, 'buffer');
export const dataViewByteLength = getter(DataView.prototype, 'byteLength');
export const dataViewByteOffset = getter(DataView.prototype, 'byteOffset');
export const typedArrayBuffer = getter(TypedArray.prototype, 'buffer');
export const typedArrayByteLength = getter(TypedArray.prototype, 'byteLength');
export const typedArrayByteOffset = getter(TypedArray.prototype, 'byteOffset');
export const typedArrayLength = getter(TypedArray.prototype, 'length');
export const typedArraySet = uncurry(TypedArray.prototype.set);
export const typedArraySubarray = uncurry(TypedArray.prototype.subarray);
export const typedArrayName = getter(TypedArray.prototype, Symbol.toStringTag);

export const numberValueOf = uncurry(Number.prototype.valueOf);
export const stringValueOf = uncurry(String.prototype.valueOf);
export const booleanValueOf = uncurry(Boolean.prototype.valueOf);
export const bigintValueOf = uncurry(BigInt.prototype.valueOf);
export const symbolValueOf = uncurry(Symbol.prototype.valueOf);
export const symbolToString = uncurry(Symbol.prototype.toString);
export const regExpSource = getter(RegExp.prototype, 'source');

export const { imul } = Math;
export const symbolAsyncIterator = Symbol.asyncIterator;
export const symbolIterator = Symbol.iterator;
export const symbolToPrimitive = Symbol.toPrimitive;
export const symbolToStringTag = Symbol.toStringTag;
export const symbolInspect = Symbol.for('nodejs.util.inspect.custom');

const promiseThen = uncurry(Promise.prototype.then);

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
