// What a value is, found out without running guest code: no getter, no trap, no Symbol.toStringTag.

import {
  bigintValueOf, booleanValueOf, bufferByteLength, dataViewByteLength, dateGetTime, define, defineProperty, getOwnPropertyDescriptor,
  getPrototypeOf, global, mapGet, mapSet, mapSize, NativeMap, NativeProxy, NativeTypeError, NativeWeakMap, numberValueOf, regExpSource,
  setSize, stringValueOf, symbolValueOf, TypedArray, ownKeys, typedArrayBuffer, own, weakGet, weakHas, weakSet, weakSetHas,
} from './intrinsics.js';

const proxies = new NativeWeakMap(); // proxy -> {target, handler, label}
const revocable = NativeProxy.revocable;

// makeProxy makes a proxy of the prelude's own; label is how it prints.
export function makeProxy(target, handler, label) {
  const proxy = new NativeProxy(target, handler);
  weakSet(proxies, proxy, { __proto__: null, target, handler, label });
  return proxy;
}

// proxyOf returns {target, handler, label} of a proxy, undefined for anything else.
export function proxyOf(value) {
  return weakGet(proxies, value);
}

// installProxy replaces Proxy by a constructor that remembers what it made: nothing else tells a proxy from its target.
export function installProxy() {
  const Proxy = function Proxy(target, handler) {
    if (new.target === undefined) throw new NativeTypeError("Constructor Proxy requires 'new'");
    return makeProxy(target, handler);
  };
  Proxy.prototype = undefined;
  defineProperty(Proxy, 'name', { __proto__: null, value: 'Proxy', configurable: true }); // the bundler gives it another
  const methods = {
    revocable(target, handler) {
      const pair = revocable(target, handler);
      weakSet(proxies, pair.proxy, { __proto__: null, target, handler });
      return pair;
    },
  };
  define(Proxy, 'revocable', methods.revocable, false);
  define(global, 'Proxy', Proxy, false);
}

const namespaces = new NativeWeakMap();

// markNamespace remembers a module's namespace: its getters are the prelude's, so that they may be read to print it.
export function markNamespace(namespace) {
  weakSet(namespaces, namespace, true);
  return namespace;
}

export function isNamespace(value) {
  return weakHas(namespaces, value);
}

const kinds = new NativeMap(); // prototype -> [kind, check]; check throws if a value is not of the kind

function kind(name, prototype, check) {
  mapSet(kinds, prototype, { __proto__: null, name, check });
}
const trust = () => {};

kind('Map', Map.prototype, mapSize);
kind('Set', Set.prototype, setSize);
kind('Date', Date.prototype, dateGetTime);
kind('RegExp', RegExp.prototype, regExpSource);
kind('Error', Error.prototype, trust);
kind('Promise', Promise.prototype, trust);
kind('WeakMap', WeakMap.prototype, (value) => weakHas(value, kinds));
kind('WeakSet', WeakSet.prototype, (value) => weakSetHas(value, kinds));
kind('ArrayBuffer', ArrayBuffer.prototype, bufferByteLength);
kind('DataView', DataView.prototype, dataViewByteLength);
kind('TypedArray', TypedArray.prototype, typedArrayBuffer);
kind('Number', Number.prototype, numberValueOf);
kind('String', String.prototype, stringValueOf);
kind('Boolean', Boolean.prototype, booleanValueOf);
kind('BigInt', BigInt.prototype, bigintValueOf);
kind('Symbol', Symbol.prototype, symbolValueOf);

// kindOf returns the built-in kind of an object by the prototypes it inherits from, checked against its inner data where
// it has some; undefined for an ordinary object.
export function kindOf(value) {
  for (let object = value; object !== null && !proxyOf(object);) {
    object = getPrototypeOf(object);
    const found = object === null ? undefined : mapGet(kinds, object);
    if (!found) continue;
    try {
      found.check(value);
      return found.name;
    } catch {
      return undefined; // Object.create(Map.prototype) and the like
    }
  }
  return undefined;
}

// peek reads a property as JavaScript would, but takes no getter's and no proxy's word: those are undefined.
export function peek(value, key) {
  for (let object = value; object !== null && !proxyOf(object); object = getPrototypeOf(object)) {
    const descriptor = getOwnPropertyDescriptor(object, key);
    if (descriptor) return own(descriptor, 'value');
  }
  return undefined;
}

// isClass says whether a function is a class: the prototype of one is read-only, of any other function it is not.
export function isClass(value) {
  return !proxyOf(value) && getOwnPropertyDescriptor(value, 'prototype')?.writable === false;
}

// natives are functions whose prototype is fixed, as a class's is, and that print as functions: the engine's own, and what stands in for some of them.
const natives = new NativeWeakMap();
for (const name of ownKeys(global)) markNative(getOwnPropertyDescriptor(global, name).value); // at boot, before any program
for (const f of [() => {}, async () => {}, function* () {}, async function* () {}]) markNative(getPrototypeOf(f).constructor); // eslint-disable-line require-yield
markNative(TypedArray);

export function markNative(value) {
  if (typeof value === 'function') weakSet(natives, value, true);
}

export const isNative = (value) => weakHas(natives, value);

const iteratorPrototype = getPrototypeOf(getPrototypeOf([].values()));
const asyncIteratorPrototype = getPrototypeOf(getPrototypeOf(getPrototypeOf((async function* () {})())));

// isIterator says whether a value is an iterator of the language's: what a generator returns, or keys().
export function isIterator(value) {
  return inherits(value, iteratorPrototype) || inherits(value, asyncIteratorPrototype);
}

// inherits says whether prototype is among those of value.
export function inherits(value, prototype) {
  for (let object = value; object !== null && !proxyOf(object);) {
    object = getPrototypeOf(object);
    if (object === prototype) return true;
  }
  return false;
}

const unboxers = {
  __proto__: null, Number: numberValueOf, String: stringValueOf, Boolean: booleanValueOf, BigInt: bigintValueOf, Symbol: symbolValueOf,
};

// unbox returns the primitive in a Number, String, Boolean, BigInt or Symbol object of that kind.
export const unbox = (value, boxed) => unboxers[boxed](value);
