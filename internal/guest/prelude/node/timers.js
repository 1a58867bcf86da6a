// The timers module and timers/promises.

import { apply, NativePromise } from '../intrinsics.js';
import { timerGlobals } from '../timers.js';
import { aborted } from './refuse.js';

const { setTimeout, setInterval, clearTimeout, clearInterval } = timerGlobals;

// wait resolves with value after ms milliseconds, unless options.signal ends it before.
export function wait(ms, value, options) {
  return new NativePromise((resolve, reject) => {
    const signal = options?.signal;
    if (signal?.aborted) throw aborted(signal);
    const cancelled = () => {
      clearTimeout(timer);
      reject(aborted(signal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancelled);
      resolve(value);
    }, ms);
    if (options?.ref === false) timer.unref();
    signal?.addEventListener('abort', cancelled, { once: true });
  });
}

async function* every(ms, value, options) {
  for (;;) yield await wait(ms, value, options);
}

export const timersPromises = {
  setTimeout: wait,
  setInterval: (ms, value, options) => every(ms, value, options),
  setImmediate: (value, options) => wait(0, value, options),
  scheduler: { wait: (ms, options) => wait(ms, undefined, options), yield: () => wait(0) },
};

export const timers = {
  setTimeout, setInterval, clearTimeout, clearInterval,
  setImmediate: (callback, ...args) => setTimeout(() => apply(callback, undefined, args), 0),
  clearImmediate: clearTimeout,
  promises: timersPromises,
};
