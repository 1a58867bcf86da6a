// The built-in modules that programs can import: those of Node.js that make sense without a machine, and servers, which
// is ./servers: every server by name.

import { global, NativeError } from './intrinsics.js';
import { fs } from './files.js';
import { assert } from './node/assert.js';
import { EventEmitter } from './node/events.js';
import { path } from './node/path.js';
import { bindText, util } from './node/util.js';
import { tools } from './tools.js';

const modules = {
  __proto__: null, assert, events: EventEmitter, fs, 'fs/promises': fs.promises, path, 'path/posix': path,
  servers: tools, util,
};

// bindWeb adds the modules made of what web/ supplies, as it was before guest code ran.
export function bindWeb() {
  const { atob, btoa, Buffer, crypto, URL, URLSearchParams } = global;
  bindText();
  modules.buffer = { Buffer, atob, btoa };
  modules.url = { URL, URLSearchParams };
  modules.crypto = {
    getRandomValues: (array) => crypto.getRandomValues(array),
    randomBytes: (size) => crypto.getRandomValues(Buffer.alloc(size)),
    randomUUID: () => crypto.randomUUID(),
    webcrypto: crypto,
  };
}

// builtin returns a module by its name.
export function builtin(name) {
  const module = modules[name];
  if (module === undefined) throw new NativeError(`there is no built-in module '${name}'`);
  return module;
}
