// How a run ends: the value or the error that the program came to, or the failure that nobody handled.

import { ErrorPrototype, NativeWeakMap, strSlice, toStr, weakGet, weakSet } from './intrinsics.js';
import { inherits, proxyOf } from './brands.js';
import { printed } from './calls.js';
import { brandOf, stackOf } from './errors.js';
import { inspect } from './inspect/inspect.js';
import { encode, isTooLarge } from './json.js';
import { run } from './run.js';
import { clip, fits, quote, record } from './text.js';

const maxCauses = 8; // of an error, so that a chain that goes round ends

// Bounds of what is reported of an error, in bytes of UTF-8. The rest is the program's to print or to return.
const maxMessage = 16 * 1024;
const maxClass = 256;
const maxStack = 64 * 1024;

let advice; // what to say if nothing is returned and nothing printed, if anything
let outcome; // {name: 'value' | 'error', text} once the program has ended
let thrown; // {reason}: the first error that a timer's callback threw
const kindOverrides = new NativeWeakMap(); // error -> kind, for those that are none of the program's making
const moduleOf = new NativeWeakMap(); // error -> id of the module that threw it while it was loaded

// expect sets what is said of a program that neither returns nor prints anything.
export function expect(text) {
  advice = text;
}

// unreturned returns what to say of a program that has ended, if anything.
export function unreturned() {
  return outcome?.text === 'null' && printed() === 0 ? advice : undefined;
}

// succeeded ends the program with its value; a value that JSON cannot hold fails it.
export function succeeded(value) {
  if (value !== undefined) advice = undefined; // also if it is null
  try {
    outcome = { __proto__: null, name: 'value', text: encode(value, 'output', run.maxValue) };
  } catch (error) {
    failed(isTooLarge(error) ? setKind(error, 'output_limit') : error);
  }
}

// failed ends the program with what it threw.
export function failed(reason) {
  outcome = { __proto__: null, name: 'error', text: errorText(reason) };
}

// ended returns {name, text} for a done frame, undefined while the program goes on.
export function ended() {
  return outcome;
}

// uncaught takes note of what a timer's callback threw: nobody else can.
export function uncaught(error) {
  thrown ??= { __proto__: null, reason: error };
}

// failing reports whether unhandled has an error to return.
export function failing(rejections) {
  return thrown !== undefined || rejections.length > 0;
}

// unhandled returns the error text of what a timer threw or else of the oldest rejection that nobody handled, if any;
// rejections holds at most one.
export function unhandled(rejections) {
  if (thrown) return errorText(thrown.reason);
  return rejections.length > 0 ? errorText(rejections[0]) : undefined;
}

// setKind makes an error report another kind than runtime. It returns the error.
export function setKind(error, kind) {
  if (isObject(error)) weakSet(kindOverrides, error, kind);
  return error;
}

// setModule remembers that an error was thrown while a module was loaded; the innermost module counts.
export function setModule(error, id) {
  if (isObject(error) && weakGet(moduleOf, error) === undefined) weakSet(moduleOf, error, id);
  return error;
}

const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function');

// read reads a property of what a program threw, which may be anything: a getter or a trap may throw.
function read(value, key) {
  try {
    return value[key];
  } catch {
    return undefined;
  }
}

function string(value) {
  try {
    return toStr(value);
  } catch {
    return inspect(value);
  }
}

const isError = (value) => isObject(value) && inherits(value, ErrorPrototype);

// messageOf is an error's message with those of its causes.
function messageOf(error) {
  let text = string(read(error, 'message') ?? '');
  let cause = read(error, 'cause');
  for (let i = 0; i < maxCauses && cause !== undefined && cause !== null && cause !== error; i++) {
    text += ` (cause: ${described(cause)})`;
    cause = isObject(cause) ? read(cause, 'cause') : undefined;
  }
  const errors = read(error, 'errors');
  if (typeof errors === 'object' && errors !== null) {
    const length = read(errors, 'length');
    for (let i = 0; i < maxCauses && typeof length === 'number' && i < length; i++) text += `; ${described(read(errors, i))}`;
  }
  if (read(error, 'code') === 'ERR_INVALID_URL') text += `: ${strSlice(string(read(error, 'input') ?? ''), 0, 200)}`; // which it is not in
  const module = weakGet(moduleOf, error);
  return module === undefined ? text : `${text} (while loading module ${module})`;
}

function described(error) {
  if (!isError(error)) return inspect(error);
  return `${string(read(error, 'name') ?? 'Error')}: ${string(read(error, 'message') ?? '')}`;
}

function errorText(reason) {
  for (let proxy; (proxy = isObject(reason) && proxyOf(reason));) reason = proxy.target; // its traps stay unasked
  if (!isError(reason)) {
    const thrown = isObject(reason) || typeof reason === 'string' ? inspect(reason) : string(reason);
    const message = typeof reason === 'string' ? reason : `${thrown} was thrown`;
    return record('kind', '"runtime"', 'name', '"Error"', 'message', quote(clip(message, maxMessage)));
  }
  const brand = brandOf(reason);
  const data = brand?.data;
  const stack = stackOf(reason);
  return record(
    'kind', quote(brand?.kind ?? weakGet(kindOverrides, reason) ?? 'runtime'),
    'name', quote(clip(string(read(reason, 'name') ?? 'Error'), maxClass)),
    'message', quote(clip(messageOf(reason), maxMessage)),
    'stack', stack === '' ? undefined : quote(clip(stack, maxStack)),
    'tool', brand?.tool === undefined ? undefined : quote(brand.tool),
    'data', data !== undefined && fits(data, run.maxValue) ? data : undefined,
  );
}

// neverSettled is the error of a program that waits for something that cannot come any more.
export function neverSettled() {
  return record('kind', '"never_settles"', 'name', '"Error"', 'message', quote(
    'the program waits for a promise that nothing can settle: no call is in flight and no timer is set. ' +
    'Look for a new Promise whose resolve is never called, or a callback that never comes',
  ));
}
