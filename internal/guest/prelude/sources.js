// The text of the runtime's functions, which String() of them would show: programs see what they see of the engine's own.

import {
  define, FunctionPrototype, functionToString, getOwnPropertyDescriptor, getPrototypeOf, global, list, NativeWeakMap, own, ownKeys, push,
  regExpExec, strIncludes, weakGet, weakHas, weakSet,
} from './intrinsics.js';
import { proxyOf } from './brands.js';

const texts = new NativeWeakMap(); // function -> its text
const seen = new NativeWeakMap();

const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

// shown is a function's text as V8 writes that of its own functions, which the runtime's are in a snapshot.
function shown(text) {
  const native = regExpExec(/^(?:async )?function ?\*? ?([^]*)\(\) \{\n {4}\[native code\]\n\}$/, text);
  return native === null ? text : `function ${native[1]}() { [native code] }`;
}

// hideSource hides the text of a function that is made after boot.
export function hideSource(f) {
  weakSet(texts, f, `function ${own(f, 'name') ?? ''}() { [native code] }`);
}

// hideSources hides the text of every function that can be reached from the globals and the other roots.
export function hideSources(roots) {
  const open = list();
  push(open, global, roots);
  while (open.length > 0) {
    const value = open[open.length - 1];
    open.length--;
    if (!isObject(value) || weakHas(seen, value) || proxyOf(value)) continue;
    weakSet(seen, value, true);
    if (typeof value === 'function' && !strIncludes(functionToString(value), '[native code]')) {
      hideSource(value);
    }
    push(open, getPrototypeOf(value));
    const names = ownKeys(value);
    for (let i = 0; i < names.length; i++) {
      const { value: held, get, set } = getOwnPropertyDescriptor(value, names[i]);
      push(open, held, get, set);
    }
  }
  const methods = {
    toString() { return weakGet(texts, this) ?? shown(functionToString(this)); },
  };
  weakSet(texts, methods.toString, 'function toString() { [native code] }');
  define(FunctionPrototype, 'toString', methods.toString, false);
}
