// The util module.

import {
  after, apply, construct, define, getPrototypeOf, global, isArray, isView, NativeError, NativePromise,
  NativeTypeError, setPrototypeOf, symbolInspect, toWellFormed, typedArrayName,
} from '../intrinsics.js';
import { kindOf, proxyOf } from '../brands.js';
import { format } from '../inspect/format.js';
import { inspect } from '../inspect/inspect.js';
import { report } from '../console.js';
import { microtask, timerGlobals } from '../timers.js';
import { replace } from '../text.js';
import { kindName } from '../tools.js';
import { equal } from './equal.js';
import { coded } from './refuse.js';
import { wait } from './timers.js';

const custom = Symbol.for('nodejs.util.promisify.custom');

function promisify(original) {
  if (typeof original !== 'function') throw new NativeTypeError('util.promisify takes a function');
  if (typeof original[custom] === 'function') return original[custom];
  return function promisified(...args) {
    return new NativePromise((resolve, reject) => {
      args[args.length] = (error, value) => {
        if (error) reject(error);
        else resolve(value);
      };
      apply(original, this, args);
    });
  };
}
promisify.custom = custom;
define(timerGlobals.setTimeout, custom, (ms, value, options) => wait(ms, value, options), false);

// callbackify makes a function with a callback of one that returns a promise. What the callback throws fails the run.
function callbackify(original) {
  if (typeof original !== 'function') throw new NativeTypeError('util.callbackify takes a function');
  return function callbackified(...args) {
    const callback = args[args.length - 1];
    if (typeof callback !== 'function') throw new NativeTypeError('The last argument must be of type function');
    args.length--;
    const promise = new NativePromise((resolve) => resolve(apply(original, this, args)));
    after(promise, (value) => microtask(() => callback(null, value)), (reason) => microtask(() => callback(
      reason || coded(NativeError, 'ERR_FALSY_VALUE_REJECTION', 'Promise was rejected with falsy value'),
    )));
  };
}

function inherits(constructor, parent) {
  if (typeof constructor !== 'function' || typeof parent !== 'function') {
    throw coded(NativeTypeError, 'ERR_INVALID_ARG_TYPE', `util.inherits takes two constructors; got ${kindName(constructor)} and ${kindName(parent)}`);
  }
  define(constructor, 'super_', parent, false);
  setPrototypeOf(constructor.prototype, parent.prototype);
}

// deprecate warns once.
function deprecate(f, message) {
  let warned = false;
  return function deprecated(...args) {
    if (!warned) report('warn', `DeprecationWarning: ${message}`);
    warned = true;
    return new.target ? construct(f, args, new.target) : apply(f, this, args);
  };
}

const escapes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|\x9b[0-?]*[ -/]*[@-~]/g;

function stripVTControlCharacters(text) {
  return replace(escapes, text, () => '');
}

const prototypes = {
  __proto__: null,
  async: getPrototypeOf(async () => {}),
  generator: getPrototypeOf(function* () {}), // eslint-disable-line require-yield
  asyncGenerator: getPrototypeOf(async function* () {}), // eslint-disable-line require-yield
};
const isFunctionOf = (first, second) => (value) => {
  if (typeof value !== 'function') return false;
  const prototype = getPrototypeOf(value);
  return prototype === prototypes[first] || prototype === prototypes[second];
};
const isTyped = (name) => (value) => isView(value) && typedArrayName(value) === name;
const boxes = { __proto__: null, Number: true, String: true, Boolean: true, BigInt: true, Symbol: true };

const isKind = (kind) => (value) => value !== null && typeof value === 'object' && kindOf(value) === kind;

// publicInspect is the program's own function: properties it sets are seen by nobody else.
// Before there were options, it took showHidden and depth.
const publicInspect = {
  inspect(value, options, depth) {
    if (typeof options !== 'boolean') return inspect(value, options);
    return inspect(value, depth === undefined ? { __proto__: null, showHidden: options } : { __proto__: null, showHidden: options, depth });
  },
}.inspect;
publicInspect.custom = symbolInspect;

export const util = {
  format,
  inspect: publicInspect,
  isDeepStrictEqual: (a, b) => equal(a, b, true),
  promisify,
  callbackify,
  debuglog: () => () => {},
  deprecate,
  inherits,
  isArray,
  stripVTControlCharacters,
  toUSVString: (text) => toWellFormed(`${text}`),
  types: {
    isAnyArrayBuffer: isKind('ArrayBuffer'),
    isArrayBufferView: (value) => isView(value),
    isAsyncFunction: isFunctionOf('async', 'asyncGenerator'),
    isBoxedPrimitive: (value) => value !== null && typeof value === 'object' && boxes[kindOf(value)] === true,
    isGeneratorFunction: isFunctionOf('generator', 'asyncGenerator'),
    isNativeError: isKind('Error'),
    isProxy: (value) => proxyOf(value) !== undefined,
  },
};
for (const kind of ['ArrayBuffer', 'DataView', 'Date', 'Map', 'Promise', 'RegExp', 'Set', 'TypedArray', 'WeakMap', 'WeakSet']) {
  util.types[`is${kind}`] = isKind(kind);
}
for (const kind of [
  'Uint8Array', 'Uint8ClampedArray', 'Uint16Array', 'Uint32Array', 'Int8Array', 'Int16Array', 'Int32Array', 'Float32Array', 'Float64Array',
  'BigInt64Array', 'BigUint64Array',
]) util.types[`is${kind}`] = isTyped(kind);

// bindText adds web/'s TextEncoder and TextDecoder, which Node has here too.
export function bindText() {
  util.TextEncoder = global.TextEncoder;
  util.TextDecoder = global.TextDecoder;
}
