// The util module: inspect, format, promisify, isDeepStrictEqual and types.

import { apply, global, NativePromise, NativeTypeError, symbolInspect, typedArrayName } from '../intrinsics.js';
import { kindOf, proxyOf } from '../brands.js';
import { format } from '../inspect/format.js';
import { inspect } from '../inspect/inspect.js';
import { equal } from './equal.js';

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

const isKind = (kind) => (value) => value !== null && typeof value === 'object' && kindOf(value) === kind;

// publicInspect is the program's own function: properties it sets are seen by nobody else.
const publicInspect = { inspect: (value, options) => inspect(value, options) }.inspect;
publicInspect.custom = symbolInspect;

export const util = {
  format,
  inspect: publicInspect,
  isDeepStrictEqual: (a, b) => equal(a, b, true),
  promisify,
  types: {
    isDate: isKind('Date'),
    isMap: isKind('Map'),
    isNativeError: isKind('Error'),
    isPromise: isKind('Promise'),
    isProxy: (value) => proxyOf(value) !== undefined,
    isRegExp: isKind('RegExp'),
    isSet: isKind('Set'),
    isTypedArray: isKind('TypedArray'),
    isUint8Array: (value) => isKind('TypedArray')(value) && typedArrayName(value) === 'Uint8Array',
  },
};

// bindText adds web/'s TextEncoder and TextDecoder, which Node has here too.
export function bindText() {
  util.TextEncoder = global.TextEncoder;
  util.TextDecoder = global.TextDecoder;
}
