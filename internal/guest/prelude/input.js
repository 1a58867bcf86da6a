// input: what the run was given to work on. JSON and text are the value itself, read when the program asks for it; of the other
// formats the program reads rows, a page of them at a time.

import {
  after, create, define, defineProperty, getPrototypeOf, global, list, NativePromise, own, push, symbolAsyncIterator, symbolIterator,
  symbolToStringTag, toArray,
} from './intrinsics.js';
import { request, requestSync } from './calls.js';

const IteratorPrototype = getPrototypeOf(getPrototypeOf([][symbolIterator]()));
const AsyncIteratorPrototype = getPrototypeOf(getPrototypeOf((async function* () {})()[symbolAsyncIterator]()));

const args = (offset, row) => `{"offset":${offset},"row":${row}}`;
const ended = () => ({ value: undefined, done: true });

// method puts a function on a prototype as built-in methods are.
const method = (prototype, key, f) => define(prototype, key, f, false);

// pages are the rows of a page at a time: take gives the next row of those that are there.
function pages() {
  return { __proto__: null, rows: [], at: 0, before: 0, next: 0 };
}

function turn(state, answer) {
  state.before += state.rows.length;
  state.rows = own(answer, 'rows');
  state.at = 0;
  state.next = own(answer, 'next');
}

function rowsOf() {
  const state = pages();
  let over = false;
  const iterator = create(IteratorPrototype);
  method(iterator, 'next', () => {
    while (!over && state.at === state.rows.length) {
      if (state.next === undefined) over = true;
      else turn(state, requestSync('input', 'read', args(state.next, state.before + state.rows.length)));
    }
    return over ? ended() : { value: state.rows[state.at++], done: false };
  });
  method(iterator, 'return', (value) => {
    over = true;
    state.rows = [];
    return { value, done: true };
  });
  return iterator;
}

// asyncRowsOf asks for the next page while the program works on the one before.
function asyncRowsOf() {
  const state = pages();
  let over = false;
  let coming; // the promise of the next page
  const ask = () => {
    const { next, before, rows } = state;
    coming = next === undefined ? undefined : request('input', 'read', args(next, before + rows.length));
    if (coming) after(coming, () => {}, () => {});
  };
  const take = (resolve, reject) => {
    if (!over && state.at < state.rows.length) {
      resolve({ value: state.rows[state.at++], done: false });
      return;
    }
    if (!over && !coming && state.before + state.rows.length === 0 && state.next === 0) ask();
    if (over || !coming) {
      over = true;
      resolve(ended());
      return;
    }
    const page = coming;
    after(page, (answer) => {
      if (coming === page && !over) {
        turn(state, answer);
        ask();
      }
      take(resolve, reject);
    }, (error) => {
      over = true;
      reject(error);
    });
  };
  const iterator = create(AsyncIteratorPrototype);
  method(iterator, 'next', () => new NativePromise(take));
  method(iterator, 'return', (value) => {
    over = true;
    state.rows = [];
    return new NativePromise((resolve) => resolve({ value, done: true }));
  });
  return iterator;
}

function rowsInput(definition) {
  const input = {};
  define(input, 'name', own(definition, 'name'));
  define(input, 'format', own(definition, 'format'));
  define(input, 'size', own(definition, 'size'));
  method(input, symbolIterator, rowsOf);
  method(input, 'toArray', () => {
    const all = list();
    const { next } = rowsOf();
    for (let row = next(); !row.done; row = next()) push(all, row.value);
    return toArray(all);
  });
  method(input, symbolAsyncIterator, asyncRowsOf);
  defineProperty(input, symbolToStringTag, { __proto__: null, value: 'Input', configurable: true });
  return input;
}

// startInput makes the global of a run that was given something to work on.
export function startInput(definition) {
  if (!definition) return;
  const format = own(definition, 'format');
  if (format !== 'json' && format !== 'text') {
    define(global, 'input', rowsInput(definition), false);
    return;
  }
  defineProperty(global, 'input', {
    __proto__: null,
    configurable: true,
    enumerable: false,
    get() {
      const value = own(requestSync('input', 'read', args(0, 0)), 'value');
      define(global, 'input', value, false);
      return value;
    },
    set(value) {
      define(global, 'input', value, false);
    },
  });
}
