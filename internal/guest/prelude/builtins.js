// The modules of Node.js that programs can import: those that make sense without a machine.

import { global, NativeError } from './intrinsics.js';
import { fs } from './files.js';
import { assert } from './node/assert.js';
import { EventEmitter } from './node/events.js';
import { path } from './node/path.js';
import { bindText, util } from './node/util.js';

const modules = { __proto__: null, assert, events: EventEmitter, fs, 'fs/promises': fs.promises, path, 'path/posix': path, util };

// bindWeb adds the modules made of what web/ supplies, as it was before guest code ran.
export function bindWeb() {
  const { atob, btoa, Buffer, crypto, TextEncoder, URL, URLSearchParams } = global;
  if (TextEncoder) bindText();
  if (Buffer) modules.buffer = { Buffer, atob, btoa };
  if (URL) modules.url = { URL, URLSearchParams };
  if (crypto) {
    modules.crypto = {
      webcrypto: crypto,
      getRandomValues: (array) => crypto.getRandomValues(array),
      randomUUID: () => crypto.randomUUID(),
    };
    if (Buffer) modules.crypto.randomBytes = (size) => crypto.getRandomValues(Buffer.alloc(size));
  }
}

// builtin returns a module by its name.
export function builtin(name) {
  const module = modules[name];
  if (module === undefined) throw new NativeError(`there is no built-in module '${name}'`);
  return module;
}
