// setTimeout, setInterval and queueMicrotask. Every timer is a host call; clearing one drops its callback, and the
// answer, when it comes, does nothing.

import {
  after, apply, list, mapDelete, mapGet, mapSet, mapSize, NativeMap, NativePromise, NativeTypeError, symbolToPrimitive,
  toNumber, trunc,
} from './intrinsics.js';
import { requestTimer } from './calls.js';
import { uncaught } from './outcome.js';

const longest = 2147483647; // as in Node and browsers; a longer delay counts as 1 ms

let lastTimer = 0;
let sleeping = 0; // promises of sleep that are not resolved
let holding = 0; // live one-shot timers that are not unref'd
let repeating = 0; // live intervals that are not unref'd
const timers = new NativeMap(); // id -> {callback, args, ms, repeat, ref}; an entry is a live timer

function count(timer, n) {
  if (!timer.ref) return;
  if (timer.repeat) repeating += n;
  else holding += n;
}

function drop(id) {
  const timer = mapGet(timers, id);
  if (timer && mapDelete(timers, id)) count(timer, -1);
}

// setRef makes a timer hold the program's end up, or not.
function setRef(id, ref) {
  const timer = mapGet(timers, id);
  if (!timer || timer.ref === ref) return;
  count(timer, -1);
  timer.ref = ref;
  count(timer, 1);
}

// Timeout is what setTimeout returns, with the members of Node's that programs use.
class Timeout {
  #id;
  #ref = true;
  constructor(id) { this.#id = id; }
  ref() { setRef(this.#id, this.#ref = true); return this; }
  unref() { setRef(this.#id, this.#ref = false); return this; }
  hasRef() { return this.#ref; }
  close() { drop(this.#id); return this; }
  [symbolToPrimitive]() { return this.#id; }
  static id(value) { return typeof value === 'object' && value !== null && #id in value ? value.#id : undefined; }
}
const idOf = Timeout.id;
delete Timeout.id;

// delay makes milliseconds of what a program passed, as a whole number that the host takes.
function delay(value) {
  const ms = trunc(toNumber(value ?? 0));
  if (!(ms >= 0)) return 0;
  return ms > longest ? 1 : ms;
}

function arm(id, timer) {
  requestTimer(timer.ms, (failure) => {
    if (mapGet(timers, id) !== timer) return;
    if (!timer.repeat) drop(id);
    try {
      if (failure) throw failure;
      apply(timer.callback, undefined, timer.args);
    } catch (error) {
      drop(id);
      uncaught(error);
    }
    if (timer.repeat && mapGet(timers, id) === timer) arm(id, timer);
  });
}

function schedule(name, callback, ms, args, repeat, ref = true) {
  if (typeof callback !== 'function') {
    throw new NativeTypeError(`${name} takes a function, not ${callback === null ? 'null' : typeof callback}`);
  }
  const id = ++lastTimer;
  const timer = { __proto__: null, callback, args, ms: delay(ms), repeat, ref };
  arm(id, timer); // before the rest: it throws where the stack has too little room
  mapSet(timers, id, timer);
  count(timer, 1);
  return new Timeout(id);
}

function clear(timer) {
  const id = idOf(timer) ?? (typeof timer === 'string' || typeof timer === 'number' ? toNumber(timer) : undefined);
  if (id !== undefined) drop(id);
}

// microtask is queueMicrotask; what the callback throws fails the run, as in a timer.
export function microtask(callback) {
  if (typeof callback !== 'function') throw new NativeTypeError('queueMicrotask takes a function');
  after(new NativePromise((resolve) => resolve()), () => {
    try {
      callback();
    } catch (error) {
      uncaught(error);
    }
  });
}

export const timerGlobals = {
  __proto__: null,
  setTimeout: (callback, ms, ...args) => schedule('setTimeout', callback, ms, args, false),
  setInterval: (callback, ms, ...args) => schedule('setInterval', callback, ms, args, true),
  clearTimeout: (timer) => clear(timer),
  clearInterval: (timer) => clear(timer),
  queueMicrotask: (callback) => microtask(callback),
};

// sleep is utils.sleep: a timer as a promise.
export function sleep(ms) {
  return new NativePromise((resolve, reject) => {
    requestTimer(delay(ms), (failure) => {
      sleeping--;
      if (failure) reject(failure);
      else resolve();
    });
    sleeping++;
  });
}

// backgroundTimer calls back after ms milliseconds, unless the program has ended before.
export function backgroundTimer(callback, ms) {
  schedule('setTimeout', callback, ms, list(), false, false);
}

// liveTimers is the number of timers that can still go off.
export function liveTimers() {
  return mapSize(timers) + sleeping;
}

// intervals is the number of live intervals that are not unref'd.
export function intervals() {
  return repeating;
}

// holdingTimers is the number of live timers for which a program whose value has settled goes on.
export function holdingTimers() {
  return holding + sleeping;
}
