// WeakRef and FinalizationRegistry that do not show the collector: a reference holds its target all run long, and nothing
// is ever finalized.

import { define, global, NativeTypeError, symbolToStringTag } from './intrinsics.js';

const canBeHeld = (value) => value !== null &&
  (typeof value === 'object' || typeof value === 'function' || typeof value === 'symbol');

class WeakRef {
  #target;
  constructor(target) {
    if (!canBeHeld(target)) throw new NativeTypeError('WeakRef: target must be an object');
    this.#target = target;
  }
  deref() { return this.#target; }
}

class FinalizationRegistry {
  constructor(cleanup) {
    if (typeof cleanup !== 'function') throw new NativeTypeError('FinalizationRegistry: cleanup must be a function');
  }
  register(target) {
    if (!canBeHeld(target)) throw new NativeTypeError('FinalizationRegistry.register: target must be an object');
  }
  unregister() { return false; }
}

export function installWeak() {
  define(WeakRef.prototype, symbolToStringTag, 'WeakRef', false);
  define(FinalizationRegistry.prototype, symbolToStringTag, 'FinalizationRegistry', false);
  define(global, 'WeakRef', WeakRef, false);
  define(global, 'FinalizationRegistry', FinalizationRegistry, false);
}
