// format: the text of console.log's arguments, with printf-like placeholders as in Node.

import {
  getOwnPropertyDescriptor, getPrototypeOf, hasOwn, is, indexOf, jsonStringify, own, parseFloat, parseInt, strSlice,
  symbolToPrimitive, symbolToString, toNumber, toStr,
} from '../intrinsics.js';
import { peek, proxyOf } from '../brands.js';
import { inspect } from './inspect.js';

const number = (value) => (is(value, -0) ? '-0' : `${value}`);

// placeholder returns the text for %c of an argument, undefined if c is no placeholder.
function placeholder(c, value) {
  switch (c) {
    case 's':
      if (typeof value === 'number') return number(value);
      if (typeof value === 'bigint') return `${value}n`;
      if (typeof value === 'symbol') return symbolToString(value);
      if (value === null || typeof value !== 'object' || printsItself(value)) return toStr(value);
      return inspect(value, { __proto__: null, depth: 0 });
    case 'j':
      try {
        return `${jsonStringify(value)}`;
      } catch {
        return '[Circular]';
      }
    case 'd':
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value === 'symbol' ? 'NaN' : number(toNumber(value));
    case 'i':
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value === 'symbol' ? 'NaN' : number(parseInt(value));
    case 'f': return typeof value === 'symbol' ? 'NaN' : number(parseFloat(value));
    case 'O': return inspect(value);
    case 'o': return inspect(value, { __proto__: null, showHidden: true, showProxy: true, depth: 4 });
    case 'c': return '';
    default: return undefined;
  }
}

// printsItself says whether %s may call a toString that the program wrote, and not a built-in's.
function printsItself(value) {
  for (let object = value; object !== null && !proxyOf(object); object = getPrototypeOf(object)) {
    if (!hasOwn(object, 'toString') && !hasOwn(object, symbolToPrimitive)) continue;
    if (object === value) return true;
    const descriptor = getOwnPropertyDescriptor(object, 'constructor');
    const constructor = descriptor && own(descriptor, 'value');
    return typeof constructor === 'function' && !isBuiltIn(peek(constructor, 'name'));
  }
  return false;
}

const builtIns = [
  'AggregateError', 'Array', 'ArrayBuffer', 'BigInt', 'BigInt64Array', 'BigUint64Array', 'Boolean', 'Buffer', 'DataView',
  'Date', 'Error', 'EvalError', 'Float32Array', 'Float64Array', 'Function', 'Int16Array', 'Int32Array', 'Int8Array',
  'Map', 'Number', 'Object', 'Promise', 'RangeError', 'ReferenceError', 'RegExp', 'Set', 'String', 'Symbol', 'SyntaxError',
  'TypeError', 'URIError', 'Uint16Array', 'Uint32Array', 'Uint8Array', 'Uint8ClampedArray', 'WeakMap', 'WeakSet',
];

const isBuiltIn = (name) => indexOf(builtIns, name) >= 0;

// format joins its arguments by spaces; strings stay bare, other values are inspected, and a first string's placeholders
// take the arguments after it.
export function format(...args) {
  let text = '';
  let used = 0;
  let separator = '';
  const first = args[0];
  if (typeof first === 'string') {
    if (args.length === 1) return first;
    let done = 0;
    for (let i = 0; i < first.length - 1; i++) {
      if (first[i] !== '%') continue;
      const c = first[++i];
      let piece;
      if (c === '%') {
        text += strSlice(first, done, i);
        done = i + 1;
        continue;
      }
      if (used + 1 === args.length) continue;
      try {
        piece = placeholder(c, args[used + 1]);
      } catch {
        piece = inspect(args[used + 1]); // a toString or valueOf of the program's threw
      }
      if (piece === undefined) continue;
      used++;
      text += strSlice(first, done, i - 1) + piece;
      done = i + 1;
    }
    if (done !== 0) {
      used++;
      separator = ' ';
      text += strSlice(first, done);
    }
  }
  for (; used < args.length; used++) {
    text += separator + (typeof args[used] === 'string' ? args[used] : inspect(args[used]));
    separator = ' ';
  }
  return text;
}
