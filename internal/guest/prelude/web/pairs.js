// Lists of names and values, as [name, value]: what Headers, FormData and URLSearchParams are.
import { apply, hasOwn, jsonStringify, keys, push } from '../intrinsics.js';
import { method, tag, tagIterator } from './shapes.js';

// pairsOf calls add with the names and values of an iterable of pairs or of an object.
export function pairsOf(what, init, add) {
  if (init === null || typeof init !== 'object' && typeof init !== 'function') throw new TypeError(`${what} takes an object or pairs`);
  if (typeof init[Symbol.iterator] === 'function') {
    for (const pair of init) {
      const both = pair === null || typeof pair !== 'object' ? [] : [...pair];
      if (both.length !== 2) throw new TypeError(`${what}: each pair must have a name and a value`);
      add(both[0], both[1]);
    }
    return;
  }
  const names = keys(init);
  for (let i = 0; i < names.length; i++) add(names[i], init[names[i]]);
}

// valuesOf returns the values of a name.
export function valuesOf(list, name) {
  const values = [];
  for (let i = 0; i < list.length; i++) if (list[i][0] === name) push(values, list[i][1]);
  return values;
}

// without returns the pairs that have not this name, or not this name and value.
function without(list, name, value) {
  const left = [];
  for (let i = 0; i < list.length; i++) if (list[i][0] !== name || (value !== undefined && list[i][1] !== value)) push(left, list[i]);
  return left;
}

// withPair puts a pair in the place of the first of its name, and drops the others of that name.
function withPair(list, pair) {
  const out = [];
  let placed = false;
  for (let i = 0; i < list.length; i++) {
    if (list[i][0] !== pair[0]) push(out, list[i]);
    else if (!placed) placed = push(out, pair) > 0;
  }
  if (!placed) push(out, pair);
  return out;
}

// pairMethods gives a class the methods of a list, but for those that it has. read returns the list of an object and throws for what is none of the
// class; write gives it another; nameOf and valueOf convert what programs pass; shown returns the list as iterators see it; exact says that
// delete and has take a value too.
export function pairMethods(cls, label, { read, write, nameOf, valueOf, shown = read, exact = false }) {
  function* each(self, pick) {
    for (let i = 0, list; i < (list = shown(self)).length; i++) yield pick(list[i]);
  }
  const iterate = (self, pick) => {
    read(self);
    return each(self, pick);
  };
  const left = (self, name, value) => without(read(self), nameOf(name), exact && value !== undefined ? valueOf(value) : undefined);
  const methods = {
    append(name, value, extra) {
      const list = read(this);
      push(list, [nameOf(name), valueOf(value, extra)]);
      write(this, list);
    },
    delete(name, value) { write(this, left(this, name, value)); },
    get(name) { return valuesOf(read(this), nameOf(name))[0] ?? null; },
    getAll(name) { return valuesOf(read(this), nameOf(name)); },
    has(name, value) { return left(this, name, value).length < read(this).length; },
    set(name, value, extra) { write(this, withPair(read(this), [nameOf(name), valueOf(value, extra)])); },
    forEach(callback, self) {
      for (let i = 0, list; i < (list = shown(this)).length; i++) apply(callback, self, [list[i][1], list[i][0], this]);
    },
    entries() { return iterate(this, (pair) => [pair[0], pair[1]]); },
    keys() { return iterate(this, (pair) => pair[0]); },
    values() { return iterate(this, (pair) => pair[1]); },
  };
  for (const name of keys(methods)) if (!hasOwn(cls.prototype, name)) method(cls.prototype, name, methods[name]);
  method(cls.prototype, Symbol.iterator, methods.entries);
  tag(cls, label);
  tagIterator(each(), `${label} Iterator`);
}

// jsonOf writes a list as JSON without asking its arrays for a toJSON.
export function jsonOf(list) {
  let json = '';
  for (let i = 0; i < list.length; i++) json += `${i > 0 ? ',' : ''}[${jsonStringify(list[i][0])},${jsonStringify(list[i][1])}]`;
  return `[${json}]`;
}
