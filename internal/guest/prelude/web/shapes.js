// What web/ shares: classes and methods shaped like the platform's.
import { define, defineProperty, getPrototypeOf } from '../intrinsics.js';

// named gives a class the name that programs see: a bundler may have changed the one in the source.
export function named(cls, name) {
  defineProperty(cls, 'name', { __proto__: null, value: name, configurable: true });
}

// tag names a class as the platform's classes are, also for Object.prototype.toString.
export function tag(cls, name, label = name) {
  named(cls, name);
  defineProperty(cls.prototype, Symbol.toStringTag, { __proto__: null, value: label, configurable: true });
}

// method defines a function on a prototype like the engine's own: not enumerable, and no constructor.
export function method(object, name, fn) {
  define(object, name, fn, false);
}

// tagIterator gives the iterators of a generator method the platform's name, and a prototype of their own for it.
export function tagIterator(iterator, label) {
  defineProperty(getPrototypeOf(iterator), Symbol.toStringTag, { __proto__: null, value: label, configurable: true });
}
