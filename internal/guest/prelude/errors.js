// The errors that host calls end in. What the harness reports about one comes from the brand, a private record that guest
// code can neither read nor make: an error is a tool's failure because this file made it, not because its name says so.

import {
  apply, construct, define, defineProperty, ErrorPrototype, getOwnPropertyDescriptor, hasOwn, join, lastIndexOf, list, mapGet, mapSet, NativeError,
  NativeMap, NativePromise, NativeRangeError, NativeReferenceError, NativeSyntaxError, NativeTypeError, NativeWeakMap, own, startsWith, strIncludes,
  strIndexOf, strSlice, toNumber, uncurry, weakGet, weakSet, regExpExec,
} from './intrinsics.js';
import { encodePlain } from './json.js';

// ToolError is what a failed tool call throws: message holds the server's own words.
export class ToolError extends NativeError {}
// InDoubtError: a write was sent, and whether it took effect is unknown.
export class InDoubtError extends ToolError {}
// SessionLostError: a stateful server was restarted during the run.
export class SessionLostError extends ToolError {}
// NeedsLoginError: a person has to log in before the server takes calls.
export class NeedsLoginError extends ToolError {}
// DeniedError: policy or a person refused the call.
export class DeniedError extends ToolError {}
// LimitError: a limit of the run was reached.
export class LimitError extends ToolError {}
// FSError is what a failed file call throws, with Node's code and path.
export class FSError extends NativeError {}

export const errorClasses = {
  __proto__: null, ToolError, InDoubtError, SessionLostError, NeedsLoginError, DeniedError, LimitError, FSError,
};

const classes = {
  __proto__: null,
  Error: NativeError,
  TypeError: NativeTypeError,
  RangeError: NativeRangeError,
  SyntaxError: NativeSyntaxError,
  ReferenceError: NativeReferenceError,
};
for (const name in errorClasses) {
  const Class = errorClasses[name];
  classes[name] = Class;
  define(Class.prototype, 'name', name, false);
}

const kinds = {
  __proto__: null, ToolError: 'tool', SessionLostError: 'tool', NeedsLoginError: 'tool', InDoubtError: 'in_doubt',
  DeniedError: 'denied', LimitError: 'call_limit',
};

const brands = new NativeWeakMap();

// brandOf returns {kind, tool, data}, data as JSON text, of an error that a host call ended in, and undefined for any
// other value.
export function brandOf(value) {
  return weakGet(brands, value);
}

// An error's stack is an own property (V8) or one of Error.prototype (QuickJS), and may be an accessor. It begins with
// the error's name and message (V8), or is frames only (QuickJS). Programs see another one: with name and message, without frames of the
// prelude, and with the lines of the source. The host gets the engine's.
const probe = new NativeError('probe');
const ownGetter = getOwnPropertyDescriptor(probe, 'stack')?.get;
const inherited = getOwnPropertyDescriptor(ErrorPrototype, 'stack');
const stackHasHeader = startsWith(`${probe.stack}`, 'Error: probe');
const Aggregate = AggregateError;
const errorToString = uncurry(ErrorPrototype.toString);
const originals = new NativeWeakMap(); // object -> {shown, stack}: what programs see as its stack, and the engine's

// The prelude's own frames take several of those that an engine records.
NativeError.stackTraceLimit = 30;

// stackOf returns the stack of an error as the engine made it, or as the program set it; no getter of the program's runs.
export function stackOf(error) {
  if (error === null || typeof error !== 'object') return '';
  const descriptor = getOwnPropertyDescriptor(error, 'stack');
  let stack;
  if (!descriptor) stack = inherited?.get && apply(inherited.get, error, []);
  else if (hasOwn(descriptor, 'value')) stack = descriptor.value;
  else if (descriptor.get !== undefined && descriptor.get === ownGetter) stack = apply(ownGetter, error, []);
  const original = weakGet(originals, error);
  if (original && original.shown === stack) return original.stack;
  return typeof stack === 'string' ? stack : '';
}

function header(error) {
  try {
    return errorToString(error);
  } catch {
    return 'Error';
  }
}

// shownStack makes of an engine's stack without a header what programs see.
function shownStack(error, stack) {
  const text = frames(stack);
  return text === '' ? header(error) : `${header(error)}\n${text}`;
}

// installStacks makes programs see their stacks.
export function installStacks() {
  let prepare;
  if (inherited?.get) {
    const { get, set } = getOwnPropertyDescriptor({
      get stack() {
        const stack = apply(inherited.get, this, []);
        return typeof stack === 'string' ? shownStack(this, stack) : stack;
      },
      set stack(value) { // the engine's takes strings only
        define(this, 'stack', value, false);
      },
    }, 'stack');
    defineProperty(ErrorPrototype, 'stack', { __proto__: null, ...inherited, get, set });
    const capture = NativeError.captureStackTrace;
    const methods = {
      captureStackTrace(object, above) {
        apply(capture, NativeError, [object, above]);
        const stack = own(getOwnPropertyDescriptor(object, 'stack'), 'value');
        if (typeof stack !== 'string') return;
        const shown = shownStack(object, stack);
        weakSet(originals, object, { __proto__: null, shown, stack });
        define(object, 'stack', shown, false);
      },
    };
    if (capture) define(NativeError, 'captureStackTrace', methods.captureStackTrace, false);
  } else {
    prepare = (error, sites) => {
      let stack = '';
      for (let i = 0; i < sites.length; i++) stack += `\n    at ${sites[i]}`;
      const shown = shownStack(error, strSlice(stack, 1));
      weakSet(originals, error, { __proto__: null, shown, stack: header(error) + stack });
      return shown;
    };
  }
  // The program's own hook would get the prelude's functions.
  defineProperty(NativeError, 'prepareStackTrace', { __proto__: null, value: prepare, writable: false, configurable: false });
}

// installAny gives the error of Promise.any the message that it has in V8, where the engine leaves it out. The promise settles no later.
export function installAny() {
  const { any } = NativePromise;
  const message = 'All promises were rejected';
  const named = (error) => {
    if (error instanceof Aggregate && !hasOwn(error, 'message')) define(error, 'message', message, false);
    return error;
  };
  const functions = {
    any(iterable) {
      const Class = this; // of promises
      const Named = function (executor) { // takes the place of the class while the engine makes its promise
        return construct(Class, [(resolve, reject) => apply(executor, undefined, [resolve, (error) => reject(named(error))])]);
      };
      Named.resolve = (value) => Class.resolve(value);
      return apply(any, Named, [iterable]);
    },
  };
  if (inherited?.get) define(NativePromise, 'any', functions.any, false);
}

// callSite remembers where the guest is now, so that an error that arrives with an answer can say who asked.
export function callSite() {
  return new NativeError('');
}

// rawFrames returns the lines of an engine's stack that are frames of guest code, without those of the prelude and of the
// built-ins that it called.
function rawFrames(stack) {
  const kept = list();
  for (let at = 0; at < stack.length;) {
    let end = strIndexOf(stack, '\n', at);
    if (end < 0) end = stack.length;
    const line = strSlice(stack, at, end);
    at = end + 1;
    if (!startsWith(line, '    at ') || strIncludes(line, 'harness:prelude') || strIncludes(line, 'node:internal/')) continue;
    if (strIncludes(line, '/runner.cjs:')) continue; // what starts Node.js
    if (strIncludes(line, '(native)') || strIncludes(line, '(<anonymous>)')) {
      const below = strSlice(stack, at, at + 200);
      const next = strIndexOf(below, '\n');
      if (kept.length === 0 || strIncludes(next < 0 ? below : strSlice(below, 0, next), 'harness:prelude')) continue;
    }
    kept[kept.length] = line;
  }
  return kept;
}

// frames returns the lines of an engine's stack that are frames of guest code, at the lines of the source.
export function frames(stack) {
  const raw = rawFrames(stack);
  const kept = list();
  for (let i = 0; i < raw.length; i++) {
    const line = inSource(raw[i]);
    if (line !== undefined) kept[kept.length] = line;
  }
  return join(kept, '\n');
}

const lines = new NativeMap(); // file -> [[line of the code, line of the source], ...], in order

// setLines says where the lines of a file's code come from: each pair is about the lines from its first on, up to the next pair's.
export function setLines(file, pairs) {
  if (pairs !== undefined) mapSet(lines, file, pairs);
}

// inSource returns a frame with the line of the source, undefined for one in code that is none of the source's. Columns are known where all lines
// are as written.
function inSource(frame) {
  const last = frame.length - (frame[frame.length - 1] === ')' ? 1 : 0);
  const column = lastIndexOf(frame, ':', last - 1);
  const colon = lastIndexOf(frame, ':', column - 1);
  const bare = startsWith(frame, '    at async ') ? '    at async '.length : '    at '.length;
  const from = last === frame.length ? bare : lastIndexOf(frame, '(', colon) + 1;
  const file = strSlice(frame, from, colon);
  const pairs = mapGet(lines, file);
  if (!pairs) return frame;
  const line = toNumber(strSlice(frame, colon + 1, column));
  let pair;
  for (let i = 0; i < pairs.length && pairs[i][0] <= line; i++) pair = pairs[i];
  if (pair === undefined) return undefined;
  const url = `file://${startsWith(file, '/') ? '' : '/workspace/'}${file}`;
  const place = `${url}:${pair[1] + line - pair[0]}:${pairs.length === 1 ? strSlice(frame, column + 1, last) : 1}`;
  return strSlice(frame, 0, from) + place + strSlice(frame, last);
}

// setStack gives an error the stack of the place where its call was made.
function setStack(error, name, message, site) {
  const text = stackOf(site);
  const shown = `${name}: ${message}\n${frames(text)}`;
  const kept = join(rawFrames(text), '\n');
  weakSet(originals, error, { __proto__: null, shown, stack: stackHasHeader ? `${name}: ${message}\n${kept}` : `${kept}\n` });
  define(error, 'stack', shown, false);
}

// errorFrom makes the error of an answer; site is the callSite of its call.
export function errorFrom(wire, site) {
  const name = own(wire, 'name') ?? 'Error';
  const message = own(wire, 'message') ?? '';
  const data = own(wire, 'data');
  const error = construct(NativeError, [message], classes[name] ?? NativeError);
  if (classes[name] === undefined) define(error, 'name', name, false);
  if (site) setStack(error, name, message, site);

  if (errorClasses[name] && name !== 'FSError') {
    const tool = own(wire, 'tool');
    const kind = own(wire, 'kind') ?? kinds[name];
    const text = data === undefined ? undefined : encodePlain(data);
    weakSet(brands, error, { __proto__: null, kind, tool, data: text });
    if (tool !== undefined) define(error, 'tool', tool);
    define(error, 'kind', kind);
    if (data !== undefined) define(error, 'data', data);
  } else if (data !== null && typeof data === 'object') {
    if (own(data, 'code') !== undefined) define(error, 'code', data.code);
    const syscall = name === 'FSError' ? regExpExec(/^[A-Z]+: .*?, (\w+)(?: '|$)/s, message) : null;
    if (syscall !== null) define(error, 'syscall', syscall[1]);
    if (own(data, 'path') !== undefined) define(error, 'path', data.path);
  }
  return error;
}
