// The errors that host calls end in. What the harness reports about one comes from the brand, a private record that guest
// code can neither read nor make: an error is a tool's failure because this file made it, not because its name says so.

import {
  apply, construct, define, ErrorPrototype, getOwnPropertyDescriptor, hasOwn, join, list, NativeError, NativeRangeError,
  NativeReferenceError, NativeSyntaxError, NativeTypeError, NativeWeakMap, own, startsWith, strIncludes, strIndexOf,
  strSlice, weakGet, weakSet,
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
// the error's name and message (V8), or is frames only (QuickJS).
const probe = new NativeError('probe');
const ownGetter = getOwnPropertyDescriptor(probe, 'stack')?.get;
const inheritedGetter = getOwnPropertyDescriptor(ErrorPrototype, 'stack')?.get;
const stackHasHeader = startsWith(`${probe.stack}`, 'Error: probe');

// The prelude's own frames take several of those that an engine records.
NativeError.stackTraceLimit = 30;

// stackOf returns the stack of an error as the engine made it, or as the program set it; no getter of the program's runs.
export function stackOf(error) {
  const descriptor = getOwnPropertyDescriptor(error, 'stack');
  let stack;
  if (!descriptor) stack = inheritedGetter && apply(inheritedGetter, error, []);
  else if (hasOwn(descriptor, 'value')) stack = descriptor.value;
  else if (descriptor.get !== undefined && descriptor.get === ownGetter) stack = apply(ownGetter, error, []);
  return typeof stack === 'string' ? stack : '';
}

// callSite remembers where the guest is now, so that an error that arrives with an answer can say who asked.
export function callSite() {
  return new NativeError('');
}

// frames returns the lines of an engine's stack that are frames of guest code, without those of the prelude and of the
// built-ins that it called.
export function frames(stack) {
  const kept = list();
  for (let at = 0; at < stack.length;) {
    let end = strIndexOf(stack, '\n', at);
    if (end < 0) end = stack.length;
    const line = strSlice(stack, at, end);
    at = end + 1;
    if (!startsWith(line, '    at ') || strIncludes(line, 'harness:prelude')) continue;
    if (strIncludes(line, '(native)') || strIncludes(line, '(<anonymous>)')) {
      const below = strSlice(stack, at, at + 200);
      const next = strIndexOf(below, '\n');
      if (kept.length === 0 || strIncludes(next < 0 ? below : strSlice(below, 0, next), 'harness:prelude')) continue;
    }
    kept[kept.length] = line;
  }
  return join(kept, '\n');
}

function stackAt(name, message, site) {
  const text = frames(stackOf(site));
  return stackHasHeader ? `${name}: ${message}\n${text}` : `${text}\n`;
}

// errorFrom makes the error of an answer; site is the callSite of its call.
export function errorFrom(wire, site) {
  const name = own(wire, 'name') ?? 'Error';
  const message = own(wire, 'message') ?? '';
  const data = own(wire, 'data');
  const error = construct(NativeError, [message], classes[name] ?? NativeError);
  if (classes[name] === undefined) define(error, 'name', name, false);
  if (site) define(error, 'stack', stackAt(name, message, site), false);

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
    if (own(data, 'path') !== undefined) define(error, 'path', data.path);
  }
  return error;
}
