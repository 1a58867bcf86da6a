// The events module: EventEmitter. Listeners are kept beside the emitter, which may be any object: a class that inherits,
// a function that calls EventEmitter on itself, or an object with its methods.

import {
  apply, define, list, mapDelete, mapForEach, mapGet, mapSet, NativeError, NativeMap, NativePromise,
  NativeWeakMap, push, symbolAsyncIterator, toArray, weakGet, weakSet,
} from '../intrinsics.js';
import { inspect } from '../inspect/inspect.js';
import { aborted, argument, coded } from './refuse.js';

const all = new NativeWeakMap(); // emitter -> Map of event -> list of {f, once}
const limits = new NativeWeakMap(); // emitter -> what setMaxListeners was told; there is no warning
const errorMonitor = Symbol('events.errorMonitor');
const defaultMaxListeners = 10;

export function EventEmitter() {}

function mapOf(emitter) {
  let map = weakGet(all, emitter);
  if (!map) weakSet(all, emitter, map = new NativeMap());
  return map;
}

const entriesOf = (emitter, event) => mapGet(mapOf(emitter), event) ?? list();

const check = (f) => argument(typeof f === 'function', 'listener', 'of type function', f);

function add(emitter, event, f, once, first) {
  check(f);
  if (entriesOf(emitter, 'newListener').length > 0) emit(emitter, 'newListener', [event, f]);
  const before = entriesOf(emitter, event);
  const entry = { __proto__: null, f, once };
  const after = list();
  if (first) push(after, entry);
  for (let i = 0; i < before.length; i++) push(after, before[i]);
  if (!first) push(after, entry);
  mapSet(mapOf(emitter), event, after);
  return emitter;
}

function remove(emitter, event, f) {
  check(f);
  const before = entriesOf(emitter, event);
  const after = list();
  let found = -1;
  for (let i = before.length - 1; i >= 0 && found < 0; i--) if (before[i].f === f) found = i;
  if (found < 0) return emitter;
  for (let i = 0; i < before.length; i++) if (i !== found) push(after, before[i]);
  if (after.length === 0) mapDelete(mapOf(emitter), event);
  else mapSet(mapOf(emitter), event, after);
  if (entriesOf(emitter, 'removeListener').length > 0) emit(emitter, 'removeListener', [event, f]);
  return emitter;
}

// emit calls the listeners that there are now, in order; an 'error' without a listener is thrown.
function emit(emitter, event, args) {
  if (event === 'error') emit(emitter, errorMonitor, args);
  const now = mapGet(mapOf(emitter), event);
  if (!now) {
    if (event !== 'error') return false;
    if (args[0] instanceof NativeError) throw args[0];
    const error = coded(NativeError, 'ERR_UNHANDLED_ERROR', `Unhandled error. (${inspect(args[0])})`);
    define(error, 'context', args[0]);
    throw error;
  }
  for (let i = 0; i < now.length; i++) {
    if (now[i].once) remove(emitter, event, now[i].f);
    apply(now[i].f, emitter, args);
  }
  return true;
}

function functionsOf(emitter, event) {
  const entries = entriesOf(emitter, event);
  const functions = list();
  for (let i = 0; i < entries.length; i++) push(functions, entries[i].f);
  return toArray(functions);
}

const methods = {
  on(event, f) { return add(this, event, f, false, false); },
  prependListener(event, f) { return add(this, event, f, false, true); },
  once(event, f) { return add(this, event, f, true, false); },
  prependOnceListener(event, f) { return add(this, event, f, true, true); },
  removeListener(event, f) { return remove(this, event, f); },
  removeAllListeners(event) {
    if (event === undefined) weakSet(all, this, new NativeMap());
    else mapDelete(mapOf(this), event);
    return this;
  },
  emit(event, ...args) { return emit(this, event, args); },
  listeners(event) { return functionsOf(this, event); },
  listenerCount(event) { return entriesOf(this, event).length; },
  eventNames() {
    const names = list();
    mapForEach(mapOf(this), (_, event) => push(names, event));
    return toArray(names);
  },
  setMaxListeners(n) {
    weakSet(limits, this, n);
    return this;
  },
  getMaxListeners() { return weakGet(limits, this) ?? defaultMaxListeners; },
};
methods.addListener = methods.on;
methods.off = methods.removeListener;
methods.rawListeners = methods.listeners;
for (const name in methods) define(EventEmitter.prototype, name, methods[name], false);

// listen has came called for each event, and failed for an 'error' or when options.signal aborts, until the function that it returns is called.
// The emitter may be an EventTarget.
function listen(emitter, event, options, came, failed) {
  const signal = options?.signal;
  if (signal?.aborted) throw aborted(signal);
  const target = typeof emitter.addEventListener === 'function' && typeof emitter.on !== 'function';
  const cancelled = () => failed(aborted(signal));
  if (target) emitter.addEventListener(event, came);
  else {
    emitter.on(event, came);
    if (event !== 'error') emitter.on('error', failed);
  }
  signal?.addEventListener('abort', cancelled, { once: true });
  return () => {
    if (target) emitter.removeEventListener(event, came);
    else {
      emitter.removeListener(event, came);
      emitter.removeListener('error', failed);
    }
    signal?.removeEventListener('abort', cancelled);
  };
}

// once resolves with the arguments of the next event, and rejects on 'error'.
function once(emitter, event, options) {
  return new NativePromise((resolve, reject) => {
    const stop = listen(emitter, event, options, (...args) => {
      stop();
      resolve(args);
    }, (error) => {
      stop();
      reject(error);
    });
  });
}

// on iterates over the arguments of each event, until 'error' or the signal ends it.
function on(emitter, event, options) {
  const events = list();
  const waiting = list(); // {resolve, reject} of next calls
  let failure; // {error}
  let over = false;
  let taken = 0;
  let served = 0;
  const end = () => {
    over = true;
    stop();
    while (served < waiting.length) waiting[served++].resolve({ value: undefined, done: true });
    return new NativePromise((resolve) => resolve({ value: undefined, done: true }));
  };
  const failed = (error) => {
    if (served < waiting.length) waiting[served++].reject(error);
    else failure = { __proto__: null, error };
    return end();
  };
  const stop = listen(emitter, event, options, (...args) => {
    if (served < waiting.length) waiting[served++].resolve({ value: args, done: false });
    else push(events, args);
  }, failed);
  return {
    next: () => new NativePromise((resolve, reject) => {
      if (taken < events.length) {
        const value = events[taken];
        events[taken++] = undefined;
        resolve({ value, done: false });
      } else if (failure) {
        const { error } = failure;
        failure = undefined;
        reject(error);
      } else if (over) resolve({ value: undefined, done: true });
      else push(waiting, { __proto__: null, resolve, reject });
    }),
    return: end,
    throw: failed,
    [symbolAsyncIterator]() { return this; },
  };
}

define(EventEmitter, 'EventEmitter', EventEmitter);
define(EventEmitter, 'once', once);
define(EventEmitter, 'on', on);
define(EventEmitter, 'listenerCount', (emitter, event) => emitter.listenerCount(event));
define(EventEmitter, 'errorMonitor', errorMonitor);
define(EventEmitter, 'defaultMaxListeners', defaultMaxListeners);
