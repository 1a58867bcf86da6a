// structuredClone makes structuredClone: the HTML standard's algorithm for the classes of the language. Only ArrayBuffers can be transferred.
import { cloneBlob } from './blob.js';
import { DOMException } from './domexception.js';
import {
  bigintValueOf, booleanValueOf, bufferSlice, create, dataViewBuffer, dataViewByteLength, dataViewByteOffset, dateGetTime, define,
  getPrototypeOf, hasOwn, isArray, isView, keys, mapForEach, mapGet, mapSet, mapSize, NativeMap, NativeSet, numberValueOf, push,
  regExpFlags, regExpSource, setAdd, setForEach, setSize, stringValueOf, symbolValueOf, toStr, typedArrayBuffer, typedArrayByteOffset,
  typedArrayLength, typedArrayName,
} from '../intrinsics.js';
import { isArrayBuffer } from '../bytes.js';

const plain = Object.prototype;
const Obj = Object;
const Dat = Date;
const Err = Error;
const Re = RegExp;
const View = DataView;
const opaque = [WeakMap, WeakSet, WeakRef, Promise];

const named = (names) => {
  const out = create(null);
  for (const name of names.split(' ')) if (globalThis[name]) out[name] = globalThis[name];
  return out;
};
const views = named('Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array ' +
  'Float16Array Float32Array Float64Array BigInt64Array BigUint64Array');
const errors = named('EvalError RangeError ReferenceError SyntaxError TypeError URIError');

function refuse(what) {
  throw new DOMException(`${what} could not be cloned.`, 'DataCloneError');
}

export const structuredClone = (detach) => {
  const functions = {
    structuredClone(value, options) {
      if (arguments.length === 0) throw new TypeError('structuredClone needs a value');
      const moved = options?.transfer === undefined ? [] : [...options.transfer];
      const seen = new NativeMap();
      for (let i = 0; i < moved.length; i++) {
        if (!isArrayBuffer(moved[i])) throw new TypeError('Found invalid object in transferList: only an ArrayBuffer can be transferred');
        if (mapGet(seen, moved[i]) !== undefined) throw new DOMException('Transfer list contains duplicate ArrayBuffer', 'DataCloneError');
        mapSet(seen, moved[i], bufferSlice(moved[i], 0));
      }
      const result = clone(value, seen);
      for (let i = 0; i < moved.length; i++) detach(moved[i]); // last: a clone that fails changes nothing
      return result;
    },
  };
  return functions.structuredClone;
};

function clone(value, seen) {
  if (typeof value === 'symbol') refuse(toStr(value));
  if (typeof value === 'function') refuse(`${value}`);
  if (typeof value !== 'object' || value === null) return value;
  const known = mapGet(seen, value);
  if (known !== undefined) return known;

  const proto = getPrototypeOf(value);
  if (proto !== plain && proto !== null && !isArray(value)) {
    const out = cloneExotic(value, seen);
    if (out !== undefined) return out;
  }
  const out = isArray(value) ? [] : {};
  if (isArray(value)) out.length = value.length;
  mapSet(seen, value, out);
  const names = keys(value);
  for (let i = 0; i < names.length; i++) {
    const copy = clone(value[names[i]], seen);
    define(out, names[i], copy, true);
  }
  return out;
}

// first returns what make gives, or undefined where it throws: the brand of a class is that its methods work.
const first = (make, value) => {
  try {
    return make(value);
  } catch {
    return undefined;
  }
};

const scalars = [
  (v) => new Dat(dateGetTime(v)),
  (v) => new Re(regExpSource(v), regExpFlags(v)),
  (v) => Obj(numberValueOf(v)),
  (v) => Obj(stringValueOf(v)),
  (v) => Obj(booleanValueOf(v)),
  (v) => Obj(bigintValueOf(v)),
  (v) => bufferSlice(v, 0),
  cloneBlob,
];

// cloneExotic clones what is more than its properties; undefined for an instance of a program's own class.
function cloneExotic(value, seen) {
  for (let i = 0; i < scalars.length; i++) {
    const out = first(scalars[i], value);
    if (out !== undefined) return remember(seen, value, out);
  }
  if (isView(value)) {
    const kind = typedArrayName(value);
    return remember(seen, value, kind === undefined
      ? new View(clone(dataViewBuffer(value), seen), dataViewByteOffset(value), dataViewByteLength(value))
      : new views[kind](clone(typedArrayBuffer(value), seen), typedArrayByteOffset(value), typedArrayLength(value)));
  }
  if (first(mapSize, value) !== undefined) {
    const out = remember(seen, value, new NativeMap());
    const entries = []; // as they are now: a getter met on the way may change the map
    mapForEach(value, (v, k) => push(entries, k, v));
    for (let i = 0; i < entries.length; i += 2) mapSet(out, clone(entries[i], seen), clone(entries[i + 1], seen));
    return out;
  }
  if (first(setSize, value) !== undefined) {
    const out = remember(seen, value, new NativeSet());
    const entries = [];
    setForEach(value, (v) => push(entries, v));
    for (let i = 0; i < entries.length; i++) setAdd(out, clone(entries[i], seen));
    return out;
  }
  if (value instanceof Err) return cloneError(value, seen);
  if (first(symbolValueOf, value) !== undefined) refuse('Object(Symbol())');
  for (let i = 0; i < opaque.length; i++) if (value instanceof opaque[i]) refuse(`#<${opaque[i].name}>`);
  return undefined;
}

const carried = ['message', 'stack', 'cause'];

function cloneError(value, seen) {
  const out = remember(seen, value, new (errors[toStr(value.name)] ?? Err)());
  for (let i = 0; i < carried.length; i++) {
    const name = carried[i];
    if (!hasOwn(value, name)) continue;
    const copy = name === 'cause' ? clone(value.cause, seen) : toStr(value[name]);
    define(out, name, copy, false);
  }
  return out;
}

function remember(seen, value, out) {
  mapSet(seen, value, out);
  return out;
}
