// What an object is called when it prints: its constructor's name and its tag.

import {
  FunctionPrototype, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, isEnumerable, ObjectPrototype, objectToString,
  own, symbolToStringTag, typedArrayName,
} from '../intrinsics.js';
import { inherits, peek, proxyOf } from '../brands.js';
import { inspect } from './inspect.js';

// constructorName returns the name of the nearest constructor that made value, null if it has no prototype.
export function constructorName(ctx, value, depth) {
  let first;
  for (let object = value; object !== null && !proxyOf(object); object = getPrototypeOf(object)) {
    if (object !== value && object === ObjectPrototype) return 'Object';
    if (object !== value && object === FunctionPrototype) return 'Function';
    const descriptor = getOwnPropertyDescriptor(object, 'constructor');
    const constructor = descriptor && own(descriptor, 'value');
    if (typeof constructor === 'function') {
      const name = peek(constructor, 'name');
      const prototype = peek(constructor, 'prototype');
      if (typeof name === 'string' && name !== '' && inherits(value, prototype)) return name;
    }
    if (first === undefined && object !== value) first = object;
  }
  if (first === undefined) return null;
  if (depth > ctx.depth) return 'Object <Complex prototype>';
  const inherited = constructorName(ctx, first, depth + 1);
  return `Object <${inherited ?? inspect(first, { __proto__: null, depth: -1, customInspect: false })}>`;
}

// tagOf returns the Symbol.toStringTag that says more than the constructor's name and is no property that prints.
export function tagOf(value, name) {
  const tag = peek(value, symbolToStringTag) ?? typedArrayName(value); // a getter of the program's is not asked
  if (typeof tag !== 'string' || tag === name) return '';
  return hasOwn(value, symbolToStringTag) && isEnumerable(value, symbolToStringTag) ? '' : tag;
}

// prefix is the text before an opening brace. fallback names what has no constructor.
export function prefix(name, tag, fallback, size = '') {
  if (name === null) {
    const base = `[${fallback}${size}: null prototype] `;
    return tag !== '' && tag !== fallback ? `${base}[${tag}] ` : base;
  }
  return tag !== '' && tag !== name ? `${name}${size} [${tag}] ` : `${name}${size} `;
}

export function isArguments(value, name, tag) {
  return name === 'Object' && tag === '' && hasOwn(value, 'callee') && objectToString(value) === '[object Arguments]';
}
