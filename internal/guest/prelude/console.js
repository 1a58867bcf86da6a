// console: every line is one log frame, as text.

import {
  apply, define, defineProperty, floor, global, isArray, mapDelete, mapGet, mapSet, max, NativeMap, NativeTypeError, numberToFixed,
  padStart, repeat, setPrototypeOf, symbolToStringTag, toNumber, toStr,
} from './intrinsics.js';
import { sendLog } from './calls.js';
import { elapsed } from './clock.js';
import { callSite, frames, stackOf } from './errors.js';
import { format } from './inspect/format.js';
import { inspect } from './inspect/inspect.js';
import { indent } from './inspect/strings.js';
import { table } from './inspect/table.js';

let margin = 0; // columns that groups indent by
const counts = new NativeMap(); // label -> number
const times = new NativeMap(); // label -> milliseconds since the start

// print sends one line of output. Printing never throws: what cannot be made text says so.
function print(level, text) {
  sendLog(level, margin === 0 ? text : repeat(' ', margin) + indent(text, margin));
}

const printer = (level) => (...args) => print(level, apply(format, undefined, args));
const log = printer('log');
const warn = printer('warn');

const labelOf = (label) => (label === undefined ? 'default' : typeof label === 'symbol' ? 'symbol' : toStr(label));

function duration(ms) {
  if (ms < 1000) return `${toNumber(numberToFixed(ms, 3))}ms`;
  if (ms < 60000) return `${numberToFixed(ms / 1000, 3)}s`;
  const hours = floor(ms / 3600000);
  const minutes = floor((ms % 3600000) / 60000);
  const seconds = padStart(numberToFixed((ms % 60000) / 1000, 3), 6, '0');
  if (hours === 0) return `${minutes}:${seconds} (m:ss.mmm)`;
  return `${hours}:${padStart(`${minutes}`, 2, '0')}:${seconds} (h:mm:ss.mmm)`;
}

function timed(name, label) {
  const since = mapGet(times, label);
  if (since === undefined) print('warn', `No such label '${label}' for console.${name}()`);
  return since === undefined ? undefined : `${label}: ${duration(elapsed() - since)}`;
}

const methods = {
  log,
  info: printer('info'),
  warn,
  error: printer('error'),
  debug: printer('debug'),
  dirxml: log,
  dir(value, options) {
    print('log', inspect(value, options));
  },
  trace(...args) {
    const text = apply(format, undefined, args);
    const stack = frames(stackOf(callSite()));
    print('debug', `Trace${text === '' ? '' : `: ${text}`}${stack === '' ? '' : `\n${stack}`}`);
  },
  assert(condition, ...args) {
    if (condition) return;
    const text = apply(format, undefined, args);
    print('warn', text === '' ? 'Assertion failed' : `Assertion failed: ${text}`);
  },
  table(data, columns) {
    if (columns !== undefined && !isArray(columns)) {
      throw new NativeTypeError('console.table takes an array of column names');
    }
    const text = table(data, columns);
    if (text === undefined) log(data);
    else print('log', text);
  },
  group(...args) {
    if (args.length > 0) apply(log, undefined, args);
    margin += 2;
  },
  groupEnd() {
    margin = max(0, margin - 2);
  },
  count(label) {
    label = labelOf(label);
    const count = (mapGet(counts, label) ?? 0) + 1;
    mapSet(counts, label, count);
    print('log', `${label}: ${count}`);
  },
  countReset(label) {
    mapDelete(counts, labelOf(label));
  },
  time(label) {
    label = labelOf(label);
    if (mapGet(times, label) === undefined) mapSet(times, label, elapsed());
  },
  timeLog(label, ...args) {
    const text = timed('timeLog', labelOf(label));
    if (text !== undefined) print('log', args.length === 0 ? text : `${text} ${apply(format, undefined, args)}`);
  },
  timeEnd(label) {
    const text = timed('timeEnd', labelOf(label));
    if (text === undefined) return;
    mapDelete(times, labelOf(label));
    print('log', text);
  },
  clear() {}, // there is no screen
};
methods.groupCollapsed = methods.group;
defineProperty(methods, symbolToStringTag, { __proto__: null, value: 'console', configurable: true });

// report prints a line of the prelude's own.
export function report(level, text) {
  sendLog(level, text);
}

export function installConsole() {
  for (const name in methods) defineProperty(methods[name], 'length', { __proto__: null, value: 0 });
  setPrototypeOf(methods, {});
  define(global, 'console', methods, false);
}
