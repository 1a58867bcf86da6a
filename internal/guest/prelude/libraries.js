// The libraries that the runtime uses. They live in a realm of their own: nothing that a program overwrites is theirs, and
// no object of theirs may reach a program, not even an error.

import { NativeError, NativeRangeError, toStr } from './intrinsics.js';

let host; // its libraries are loaded when they are first read, where they are not part of a snapshot
let loaded;

export function connectLibraries(theHost) {
  host = theHost;
}

// library calls a function of the libraries. It is read within the guard: a getter that runs out of stack throws an error of their realm.
export const library = guarded((name, a, b, c, d) => {
  loaded ??= host.libraries;
  return loaded[name](a, b, c, d);
});

// guarded makes a function of the libraries throw errors of this realm.
export function guarded(f) {
  return (a, b, c, d, e) => {
    let thrown;
    try {
      return f(a, b, c, d, e);
    } catch (error) {
      thrown = error;
    }
    const message = toStr(thrown.message);
    throw thrown.name === 'RangeError' ? new NativeRangeError(message) : new NativeError(message);
  };
}
