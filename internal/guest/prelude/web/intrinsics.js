// The engine's own functions, taken before any program runs: a program that overwrites String.prototype.slice or
// Array.prototype.push changes nothing here. Methods become functions whose first argument is the receiver.
const { bind, call } = Function.prototype;
export const uncurry = bind.bind(call);
const getter = (object, name) => uncurry(Object.getOwnPropertyDescriptor(object, name).get);

export const { apply, construct } = Reflect;
export const { create, defineProperty, getPrototypeOf, is, keys } = Object;
export const hasOwn = Object.hasOwn;
export const { abs, floor, max, min, pow, trunc } = Math;
export const { isArray } = Array;
export const { isInteger, isNaN } = Number;
export const fromCharCode = String.fromCharCode;
export const fromCodePoint = String.fromCodePoint;
export const { encodeURIComponent, decodeURIComponent, escape, unescape } = globalThis;
export const jsonParse = JSON.parse;
export const jsonStringify = JSON.stringify;
export const str = String;
export const num = Number;
export const int = parseInt;

const S = String.prototype;
export const charCodeAt = uncurry(S.charCodeAt);
export const codePointAt = uncurry(S.codePointAt);
export const endsWith = uncurry(S.endsWith);
export const lower = uncurry(S.toLowerCase);
export const normalize = uncurry(S.normalize);
export const padEnd = uncurry(S.padEnd);
export const padStart = uncurry(S.padStart);
export const repeat = uncurry(S.repeat);
export const slice = uncurry(S.slice);
export const split = uncurry(S.split);
export const startsWith = uncurry(S.startsWith);
export const strIndexOf = uncurry(S.indexOf);
export const strLastIndexOf = uncurry(S.lastIndexOf);
export const toWellFormed = uncurry(S.toWellFormed);
export const trim = uncurry(S.trim);
export const upper = uncurry(S.toUpperCase);

const A = Array.prototype;
export const arraySlice = uncurry(A.slice);
export const indexOf = uncurry(A.indexOf);
export const join = uncurry(A.join);
export const pop = uncurry(A.pop);
export const push = uncurry(A.push);
export const sort = uncurry(A.sort);
export const splice = uncurry(A.splice);

export const exec = uncurry(RegExp.prototype.exec);
export const regExpSource = getter(RegExp.prototype, 'source');
export const regExpFlags = getter(RegExp.prototype, 'flags');
export const test = (re, text) => exec(re, text) !== null;

// replace is String.prototype.replace for a global expression and a function, without its look-ups by symbol: fn gets
// the match array.
export function replace(re, text, fn) {
  let out = '';
  let from = 0;
  re.lastIndex = 0;
  for (let m; (m = exec(re, text)); ) {
    out += slice(text, from, m.index) + fn(m);
    from = m.index + m[0].length;
    if (m[0] === '') re.lastIndex++;
  }
  return out + slice(text, from);
}

export const SafeMap = Map;
export const SafeSet = Set;
export const mapGet = uncurry(Map.prototype.get);
export const mapSet = uncurry(Map.prototype.set);
export const mapEach = uncurry(Map.prototype.forEach);
export const mapSize = getter(Map.prototype, 'size');
export const setAdd = uncurry(Set.prototype.add);
export const setDelete = uncurry(Set.prototype.delete);
export const setHas = uncurry(Set.prototype.has);
export const setEach = uncurry(Set.prototype.forEach);

export const setSize = getter(Set.prototype, 'size');

export const Bytes = Uint8Array;
const T = getPrototypeOf(Uint8Array.prototype);
export const typedTag = getter(T, Symbol.toStringTag); // undefined for what is no typed array
export const typedBuffer = getter(T, 'buffer');
export const typedOffset = getter(T, 'byteOffset');
export const typedBytes = getter(T, 'byteLength');
export const typedLength = getter(T, 'length');
export const typedSet = uncurry(T.set);
export const subarray = uncurry(T.subarray);
export const typedSlice = uncurry(T.slice);
export const typedFill = uncurry(T.fill);
export const typedIndexOf = uncurry(T.indexOf);

export const { isView } = ArrayBuffer;
export const bufferBytes = getter(ArrayBuffer.prototype, 'byteLength');
export const bufferSlice = uncurry(ArrayBuffer.prototype.slice);
export const viewBuffer = getter(DataView.prototype, 'buffer');
export const viewOffset = getter(DataView.prototype, 'byteOffset');
export const viewBytes = getter(DataView.prototype, 'byteLength');

export const getTime = uncurry(Date.prototype.getTime);
export const numValue = uncurry(Number.prototype.valueOf);
export const numString = uncurry(Number.prototype.toString);
export const bigValue = uncurry(BigInt.prototype.valueOf);
export const strValue = uncurry(String.prototype.valueOf);
export const boolValue = uncurry(Boolean.prototype.valueOf);
export const symValue = uncurry(Symbol.prototype.valueOf);
export const reject = Promise.reject.bind(Promise);
export const resolve = Promise.resolve.bind(Promise);

// isArrayBuffer says whether a value is an ArrayBuffer, without trusting its prototype.
export function isArrayBuffer(value) {
  try {
    bufferBytes(value);
    return true;
  } catch {
    return false;
  }
}

// bytesOf views an ArrayBuffer or a view of one as bytes, without copying; undefined for anything else.
export function bytesOf(value) {
  if (isArrayBuffer(value)) return new Bytes(value);
  if (!isView(value)) return undefined;
  return typedTag(value) === undefined
    ? new Bytes(viewBuffer(value), viewOffset(value), viewBytes(value))
    : new Bytes(typedBuffer(value), typedOffset(value), typedBytes(value));
}

// define puts a plain value on an object. Descriptors have no prototype: a program may have put get on Object.prototype.
export function define(object, name, value, enumerable) {
  defineProperty(object, name, { __proto__: null, value, enumerable, writable: true, configurable: true });
}

// named gives a class the name that programs see: a bundler may have changed the one in the source.
export function named(cls, name) {
  defineProperty(cls, 'name', { __proto__: null, value: name, configurable: true });
}

// tag names a class as the platform's classes are, also for Object.prototype.toString.
export function tag(cls, name, label = name) {
  named(cls, name);
  defineProperty(cls.prototype, Symbol.toStringTag, { __proto__: null, value: label, configurable: true });
}

// INSPECT is the key of the method by which console.log prints a value: (depth, options, inspect) => text.
export const INSPECT = Symbol.for('nodejs.util.inspect.custom');

// method defines a function on a prototype like the engine's own: not enumerable, and no constructor.
export function method(object, name, fn) {
  define(object, name, fn, false);
}

// tagIterator gives the iterators of a generator method the platform's name, and a prototype of their own for it.
export function tagIterator(iterator, label) {
  defineProperty(getPrototypeOf(iterator), Symbol.toStringTag, { __proto__: null, value: label, configurable: true });
}
