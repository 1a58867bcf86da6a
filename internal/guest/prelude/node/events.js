// The events module: EventEmitter.

import {
  apply, list, mapDelete, mapForEach, mapGet, mapSet, NativeError, NativeMap, NativePromise, NativeTypeError, push,
  toArray,
} from '../intrinsics.js';
import { inspect } from '../inspect/inspect.js';

function listener(f) {
  if (typeof f !== 'function') throw new NativeTypeError('a listener must be a function');
  return f;
}

export class EventEmitter {
  #listeners = new NativeMap(); // event -> list of {f, once}

  #add(event, f, once, first) {
    const before = mapGet(this.#listeners, event) ?? list();
    const entry = { __proto__: null, f: listener(f), once };
    const after = list();
    if (first) push(after, entry);
    for (let i = 0; i < before.length; i++) push(after, before[i]);
    if (!first) push(after, entry);
    mapSet(this.#listeners, event, after);
    return this;
  }

  on(event, f) { return this.#add(event, f, false, false); }
  addListener(event, f) { return this.#add(event, f, false, false); }
  prependListener(event, f) { return this.#add(event, f, false, true); }
  once(event, f) { return this.#add(event, f, true, false); }

  off(event, f) { return this.removeListener(event, f); }
  removeListener(event, f) {
    const before = mapGet(this.#listeners, event) ?? list();
    const after = list();
    let found = -1;
    for (let i = before.length - 1; i >= 0 && found < 0; i--) if (before[i].f === f) found = i;
    for (let i = 0; i < before.length; i++) if (i !== found) push(after, before[i]);
    if (after.length === 0) mapDelete(this.#listeners, event);
    else mapSet(this.#listeners, event, after);
    return this;
  }

  removeAllListeners(event) {
    if (event === undefined) this.#listeners = new NativeMap();
    else mapDelete(this.#listeners, event);
    return this;
  }

  // emit calls the listeners that there are now, in order; an 'error' that nobody listens to is thrown.
  emit(event, ...args) {
    const now = mapGet(this.#listeners, event);
    if (!now) {
      if (event !== 'error') return false;
      throw args[0] instanceof NativeError ? args[0] : new NativeError(`Unhandled error. (${inspect(args[0])})`);
    }
    for (let i = 0; i < now.length; i++) {
      if (now[i].once) this.removeListener(event, now[i].f);
      apply(now[i].f, this, args);
    }
    return true;
  }

  listeners(event) {
    const now = mapGet(this.#listeners, event) ?? list();
    const functions = list();
    for (let i = 0; i < now.length; i++) push(functions, now[i].f);
    return toArray(functions);
  }

  listenerCount(event) { return (mapGet(this.#listeners, event) ?? list()).length; }

  eventNames() {
    const names = list();
    mapForEach(this.#listeners, (_, event) => push(names, event));
    return toArray(names);
  }

  setMaxListeners() { return this; } // there is no warning to silence
}

// once resolves with the arguments of the next event, and rejects on 'error'.
function once(emitter, event) {
  return new NativePromise((resolve, reject) => {
    const failed = (error) => {
      emitter.removeListener(event, came);
      reject(error);
    };
    const came = (...args) => {
      emitter.removeListener('error', failed);
      resolve(args);
    };
    emitter.once(event, came);
    if (event !== 'error') emitter.once('error', failed);
  });
}

EventEmitter.EventEmitter = EventEmitter;
EventEmitter.once = once;
