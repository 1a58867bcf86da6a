// What each kind of object prints: braces, elements, keys, and what stands before them.

import {
  bufferByteLength, dataViewBuffer, dataViewByteLength, dataViewByteOffset, define, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, isArray,
  isEnumerable, keys, list, mapForEach, mapIteratorNext, MapIteratorPrototype, mapSize, max, min, NativeWeakMap, own, ownKeys, push, regExpExec, setForEach, setIteratorNext, SetIteratorPrototype, setSize, toNumber, typedArrayLength,
  typedArraySubarray, weakGet, weakSet,
} from '../intrinsics.js';
import { kindOf } from '../brands.js';
import { bytesOf, toHex } from '../bytes.js';
import { replace } from '../text.js';
import { boxedBase, dateBase, errorBase, functionBase, regExpBase } from './bases.js';
import { formatPrimitive, formatProperty, formatValue } from './inspect.js';
import { arrayElement, arrayLike, objectLike } from './layout.js';
import { constructorName, isArguments, prefix, tagOf } from './names.js';

// describe returns how an object prints: base before the braces open and close; elements, a function that appends what
// comes before the properties of keys; element, to look at one; title for when it is too deep; whole if that is all.
export function describe(ctx, value, depth, inTypedArray) {
  const name = constructorName(ctx, value, depth);
  const tag = tagOf(value, name);
  const kind = isArray(value) ? 'Array' : kindOf(value);
  const lead = (fallback, size) => prefix(name, tag, fallback, size === undefined ? '' : `(${size})`);
  const shape = {
    __proto__: null, base: '', open: '{', close: '}', kind: objectLike,
    elements: undefined, element: undefined, whole: undefined,
    keys: visibleKeys(ctx, value, kind === 'Array' || kind === 'TypedArray' || kind === 'String'),
    title: trimEnd(lead(kind === 'Array' ? 'Array' : 'Object')),
  };
  let size; // of a collection, which prints whole when it is empty

  if (typeof value === 'function') {
    shape.base = functionBase(value, name, tag);
  } else {
    switch (kind) {
      case 'Array':
        size = value.length;
        shape.open = name !== 'Array' || tag !== '' ? `${lead('Array', size)}[` : '[';
        shape.close = ']';
        shape.kind = arrayLike;
        shape.elements = arrayElements;
        shape.element = (i) => own(getOwnPropertyDescriptor(value, i) ?? { __proto__: null }, 'value');
        break;
      case 'TypedArray':
        size = typedArrayLength(value);
        shape.open = `${lead('TypedArray', size)}[`;
        shape.close = ']';
        shape.kind = arrayLike;
        shape.elements = typedArrayElements;
        shape.element = (i) => value[i];
        break;
      case 'Set':
        size = setSize(value);
        shape.open = `${lead(kind, size)}{`;
        shape.elements = setElements;
        break;
      case 'Map':
        size = mapSize(value);
        shape.open = `${lead(kind, size)}{`;
        shape.elements = mapElements;
        break;
      case 'RegExp': shape.base = regExpBase(value, name, tag); break;
      case 'Date': shape.base = dateBase(value, name, tag); break;
      case 'Error': shape.base = errorBase(ctx, value, name, tag, shape.keys); break;
      case 'Number': case 'String': case 'Boolean': case 'BigInt': case 'Symbol':
        shape.base = boxedBase(ctx, value, kind, name, tag);
        break;
      case 'ArrayBuffer':
        shape.open = `${lead(kind)}{`;
        shape.elements = inTypedArray ? byteLength : bufferElements;
        break;
      case 'DataView':
        shape.open = `${lead(kind)}{`;
        shape.elements = dataViewElements;
        break;
      case 'Promise':
        // Nothing tells a program whether a promise has settled; the one that gets printed is the one not awaited.
        shape.open = `${lead(kind)}{`;
        shape.elements = (_ctx, _value, _depth, entries) => push(entries, '<pending>');
        break;
      case 'WeakSet': case 'WeakMap':
        shape.open = `${lead(kind)}{`;
        shape.elements = (_ctx, _value, _depth, entries) => push(entries, '<items unknown>');
        break;
      default: {
        const rest = remaining(value);
        if (rest !== undefined) {
          shape.open = `[${rest.title}] {`;
          shape.elements = (_ctx, _value, _depth, entries) => restElements(ctx, rest.items, depth, entries);
          break;
        }
        if (isArguments(value, name, tag)) shape.open = '[Arguments] {';
        else if (name !== 'Object' || tag !== '') shape.open = `${lead('Object')}{`;
        size = 0;
      }
    }
  }
  if (shape.keys.length === 0) {
    if (shape.base !== '') shape.whole = shape.base;
    else if (size === 0) shape.whole = shape.open + shape.close;
  }
  return shape;
}

const drained = new NativeWeakMap(); // iterator -> what is left of it

// remaining returns what is left of an iterator of a Map or Set, undefined for anything else. Nothing tells that but to take it: the
// iterator gives it out again.
function remaining(iterator) {
  const known = weakGet(drained, iterator);
  if (known !== undefined) return { __proto__: null, title: known.title, items: listFrom(known.items, known.at) };
  const prototype = getPrototypeOf(iterator);
  const kind = prototype === MapIteratorPrototype ? 'Map' : prototype === SetIteratorPrototype ? 'Set' : undefined;
  if (kind === undefined || hasOwn(iterator, 'next')) return undefined;
  const state = { __proto__: null, title: '', items: list(), at: 0 };
  const again = {
    next() {
      const done = state.at >= state.items.length;
      return { value: done ? undefined : state.items[state.at++], done };
    },
  };
  const next = kind === 'Map' ? mapIteratorNext : setIteratorNext;
  let pairs = true;
  try {
    define(iterator, 'next', again.next, false);
    for (let step; !(step = next(iterator)).done;) {
      push(state.items, step.value);
      pairs &&= isArray(step.value) && step.value.length === 2;
    }
  } catch {
    return undefined; // it only inherits from one, or cannot be changed
  }
  state.title = `${kind} ${pairs && state.items.length > 0 ? 'Entries' : 'Iterator'}`;
  weakSet(drained, iterator, state);
  return state;
}

function listFrom(items, from) {
  const out = list();
  for (let i = from; i < items.length; i++) push(out, items[i]);
  return out;
}

function restElements(ctx, items, depth, entries) {
  const count = shown(ctx, items.length);
  ctx.indentation += 2;
  for (let i = 0; i < count; i++) push(entries, formatValue(ctx, items[i], depth));
  ctx.indentation -= 2;
  more(entries, items.length - count);
}

const trimEnd = (text) => regExpExec(/^(.*?) ?$/s, text)[1];

// visibleKeys returns the keys that print, names before symbols; an object that prints its elements leaves out indices.
function visibleKeys(ctx, value, withoutIndices) {
  const all = ownKeys(value);
  const visible = list();
  for (let i = 0; i < all.length; i++) {
    const key = all[i];
    if (!ctx.showHidden && !isEnumerable(value, key)) continue;
    if (withoutIndices && isIndex(key)) continue;
    push(visible, key);
  }
  return visible;
}

function isIndex(key) {
  return typeof key === 'string' && regExpExec(/^(0|[1-9][0-9]{0,9})$/, key) !== null && toNumber(key) < 4294967295;
}

// shown is how many of count elements print; more appends the rest as a number.
const shown = (ctx, count) => min(max(0, ctx.maxArrayLength), count);

function more(entries, left, noun = 'item') {
  if (left > 0) push(entries, `... ${left} more ${noun}${left > 1 ? 's' : ''}`);
}

function arrayElements(ctx, value, depth, entries) {
  const count = shown(ctx, value.length);
  for (let i = 0; i < count; i++) {
    if (!hasOwn(value, i)) {
      sparseElements(ctx, value, depth, entries, count, i);
      return;
    }
    push(entries, formatProperty(ctx, value, depth, `${i}`, arrayElement));
  }
  more(entries, value.length - count);
}

// sparseElements goes on at the first hole, by keys: the length of a sparse array says nothing about its size.
function sparseElements(ctx, value, depth, entries, limit, from) {
  const names = keys(value);
  let index = from;
  for (let i = from; i < names.length && entries.length < limit && isIndex(names[i]); i++) {
    const at = toNumber(names[i]);
    if (at > index) {
      push(entries, `<${at - index} empty item${at - index > 1 ? 's' : ''}>`);
      index = at;
      if (entries.length === limit) break;
    }
    push(entries, formatProperty(ctx, value, depth, names[i], arrayElement));
    index++;
  }
  const left = value.length - index;
  if (left === 0) return;
  if (entries.length < limit) push(entries, `<${left} empty item${left > 1 ? 's' : ''}>`);
  else more(entries, left);
}

function typedArrayElements(ctx, value, depth, entries) {
  const size = typedArrayLength(value);
  const count = shown(ctx, size);
  for (let i = 0; i < count; i++) push(entries, formatPrimitive(ctx, value[i]));
  more(entries, size - count);
}

function setElements(ctx, value, depth, entries) {
  const count = shown(ctx, setSize(value));
  ctx.indentation += 2;
  setForEach(value, (item) => {
    if (entries.length < count) push(entries, formatValue(ctx, item, depth));
  });
  ctx.indentation -= 2;
  more(entries, setSize(value) - count);
}

function mapElements(ctx, value, depth, entries) {
  const count = shown(ctx, mapSize(value));
  ctx.indentation += 2;
  mapForEach(value, (item, key) => {
    if (entries.length < count) push(entries, `${formatValue(ctx, key, depth)} => ${formatValue(ctx, item, depth)}`);
  });
  ctx.indentation -= 2;
  more(entries, mapSize(value) - count);
}

function bufferElements(ctx, value, depth, entries) {
  const bytes = bytesOf(value);
  const size = typedArrayLength(bytes);
  const count = shown(ctx, size);
  let text = replace(/..(?=.)/g, toHex(typedArraySubarray(bytes, 0, count)), (m) => `${m[0]} `);
  if (size > count) text += ` ... ${size - count} more byte${size - count > 1 ? 's' : ''}`;
  push(entries, `[Uint8Contents]: <${text}>`);
  byteLength(ctx, value, depth, entries);
}

function byteLength(ctx, value, depth, entries) {
  push(entries, `byteLength: ${bufferByteLength(value)}`);
}

function dataViewElements(ctx, value, depth, entries) {
  push(entries, `byteLength: ${dataViewByteLength(value)}`);
  push(entries, `byteOffset: ${dataViewByteOffset(value)}`);
  ctx.indentation += 2;
  push(entries, `buffer: ${formatValue(ctx, dataViewBuffer(value), depth)}`);
  ctx.indentation -= 2;
}
