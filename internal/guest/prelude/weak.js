// WeakRef and FinalizationRegistry that do not show the collector: a reference holds its target all run long, and nothing
// is ever finalized.

import { define, global, is, NativeTypeError, NativeWeakMap, weakDelete, weakSet } from './intrinsics.js';
import { markNative } from './brands.js';
import { tag } from './web/shapes.js';

const { keyFor } = Symbol;

const canBeHeld = (value) => (typeof value === 'symbol' ? keyFor(value) === undefined : value !== null &&
  (typeof value === 'object' || typeof value === 'function'));

class WeakRef {
  #target;
  constructor(target) {
    if (!canBeHeld(target)) throw new NativeTypeError('WeakRef: target must be an object');
    this.#target = target;
  }
  deref() { return this.#target; }
}

class FinalizationRegistry {
  #tokens = new NativeWeakMap();
  constructor(cleanup) {
    if (typeof cleanup !== 'function') throw new NativeTypeError('FinalizationRegistry: cleanup must be a function');
  }
  register(target, held, token) {
    const tokens = this.#tokens;
    if (!canBeHeld(target) || is(target, held)) throw new NativeTypeError('FinalizationRegistry.register: target must be an object, and not the held value');
    if (canBeHeld(token)) weakSet(tokens, token, true);
    else if (token !== undefined) throw new NativeTypeError('FinalizationRegistry.register: token must be an object');
  }
  unregister(token) {
    const tokens = this.#tokens;
    if (!canBeHeld(token)) throw new NativeTypeError('FinalizationRegistry.unregister: token must be an object');
    return weakDelete(tokens, token);
  }
}

export function installWeak() {
  const classes = { __proto__: null, WeakRef, FinalizationRegistry };
  for (const name in classes) {
    tag(classes[name], name);
    markNative(classes[name]);
    define(global, name, classes[name], false);
  }
}
