// The built-in modules that programs can import: those of Node.js that make sense without a machine, and servers, which
// is ./servers: every server by name.

import { global, NativeError } from './intrinsics.js';
import { fs } from './files.js';
import { assert } from './node/assert.js';
import { cryptoModule } from './node/crypto.js';
import { StringDecoder } from './node/decoder.js';
import { EventEmitter } from './node/events.js';
import { os } from './node/os.js';
import { path } from './node/path.js';
import { querystring } from './node/querystring.js';
import { timers, timersPromises } from './node/timers.js';
import { url } from './node/url.js';
import { bindText, util } from './node/util.js';
import { tools } from './tools.js';

export const modules = {
  __proto__: null, assert, 'assert/strict': assert.strict, events: EventEmitter, fs, 'fs/promises': fs.promises, os, path,
  'path/posix': path, querystring, servers: tools, string_decoder: { StringDecoder }, timers,
  'timers/promises': timersPromises, url, util, 'util/types': util.types,
};

// bindWeb adds the modules made of what web/ supplies, as it was before guest code ran.
export function bindWeb() {
  const { atob, Blob, btoa, Buffer, crypto, File } = global;
  bindText();
  modules.buffer = {
    Blob, Buffer, File, atob, btoa, constants: { MAX_LENGTH: 0x7fffffff, MAX_STRING_LENGTH: 0x1fffffff }, kMaxLength: 0x7fffffff,
  };
  modules.crypto = cryptoModule(crypto);
}

// builtin returns a module by its name.
export function builtin(name) {
  const module = modules[name];
  if (module === undefined) throw new NativeError(`there is no built-in module '${name}'`);
  return module;
}
