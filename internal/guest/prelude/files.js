// fs: the files of /skills and /workspace. The names are those of Node's fs.promises, with the original runtime's
// listFiles, exists and deleteFile. Paths go to the host as the program wrote them.

import {
  apply, attempt, define, endsWith, global, list, NativeDate, NativeError, NativeTypeError, own, push, startsWith,
  strSlice, toArray, toLowerCase,
} from './intrinsics.js';
import { bytesOf } from './brands.js';
import { fromBase64, toBase64 } from './bytes.js';
import { request } from './calls.js';
import { encode } from './json.js';
import { quote, record } from './text.js';
import { kindName } from './tools.js';

let toBuffer; // makes a Buffer of bytes
let bufferText; // (bytes, encoding) => text in one of Buffer's other encodings

// bindBuffer takes Buffer as web/ made it, before guest code can replace it.
export function bindBuffer() {
  const { Buffer } = global;
  const { from } = Buffer;
  const { toString } = Buffer.prototype;
  toBuffer = (bytes) => apply(from, Buffer, [bytes.buffer]);
  bufferText = (bytes, encoding) => apply(toString, toBuffer(bytes), [encoding]);
}

const call = (name, args, convert, recover) => request('fs', name, args, convert, recover);
const nothing = () => undefined;
const flag = (value) => (value ? 'true' : undefined);

function pathText(name, path) {
  if (typeof path === 'string') return quote(path);
  throw new NativeTypeError(`fs.${name} takes the path as a string, like '/workspace/data.json'; got ${kindName(path)}`);
}

// optionsOf returns a call's options: an object, or a string that is the encoding.
function optionsOf(name, options) {
  if (typeof options === 'function') throw new NativeTypeError(`fs.${name} takes no callback: use await fs.${name}(...)`);
  if (typeof options === 'string' || options === null) return { __proto__: null, encoding: options };
  return typeof options === 'object' ? options : { __proto__: null };
}

const normal = (encoding) => {
  const name = toLowerCase(`${encoding}`);
  return name === 'utf-8' ? 'utf8' : name;
};

function write(name, path, data, options) {
  return attempt(() => {
    const where = pathText(name, path);
    options = optionsOf(name, options);
    const convert = name === 'writeFile' ? undefined : nothing;
    const operation = name === 'appendFile' || options.flag === 'a' ? 'appendFile' : 'writeFile';
    if (typeof data === 'string') {
      const encoding = normal(options.encoding ?? 'utf8');
      if (encoding === 'utf8') return call(operation, record('path', where, 'text', quote(data)), convert);
      if (encoding === 'base64') return call(operation, record('path', where, 'base64', quote(data)), convert);
      throw new NativeTypeError(
        `fs.${name} writes text as utf8 or base64, not ${encoding}: convert it with Buffer.from(data, '${encoding}')`,
      );
    }
    const bytes = bytesOf(data);
    if (bytes) return call(operation, record('path', where, 'base64', quote(toBase64(bytes))), convert);
    throw new NativeTypeError(
      `fs.${name} writes a string or bytes; got ${kindName(data)}: use JSON.stringify(data, null, 2) for an object, ` +
      'String(data) for another value',
    );
  });
}

// read gives text, or a Buffer if the encoding is null or 'buffer'. offset and length take a range, in bytes.
function read(path, options) {
  return attempt(() => {
    const where = pathText('readFile', path);
    options = optionsOf('readFile', options);
    const encoding = options.encoding === null ? 'buffer' : normal(options.encoding ?? 'utf8');
    const args = record(
      'path', where, 'encoding', encoding === 'utf8' ? '"utf8"' : '"base64"',
      'offset', range('offset', options.offset), 'length', range('length', options.length),
    );
    return call('readFile', args, (answer) => {
      if (encoding === 'utf8') return own(answer, 'text');
      const base64 = own(answer, 'base64');
      if (encoding === 'base64') return base64;
      return encoding === 'buffer' ? toBuffer(fromBase64(base64)) : bufferText(fromBase64(base64), encoding);
    });
  });
}

function range(name, value) {
  if (value === undefined) return undefined;
  if (typeof value === 'number') return encode(value, name, 0);
  throw new NativeTypeError(`fs.readFile takes ${name} as a number of bytes; got ${kindName(value)}`);
}

class Dirent {
  constructor(name, parentPath, type) {
    define(this, 'name', name);
    define(this, 'parentPath', parentPath);
    define(this, 'path', parentPath);
    define(this, 'type', type);
  }
  isFile() { return this.type === 'file'; }
  isDirectory() { return this.type === 'directory'; }
  isSymbolicLink() { return false; }
}

class Stats {
  constructor(answer) {
    const modified = own(answer, 'mtimeMs');
    define(this, 'type', own(answer, 'type'));
    define(this, 'size', own(answer, 'size'));
    define(this, 'mtimeMs', modified);
    define(this, 'mtime', new NativeDate(modified));
  }
  isFile() { return this.type === 'file'; }
  isDirectory() { return this.type === 'directory'; }
  isSymbolicLink() { return false; }
}

// entryName is an entry's name as readdir gives it: below a directory, its path from there.
function entryName(directory, entry) {
  const prefix = endsWith(directory, '/') ? directory : `${directory}/`;
  const path = own(entry, 'path');
  return startsWith(path, prefix) ? strSlice(path, prefix.length) : own(entry, 'name');
}

function lastSlash(path) {
  let end = path.length - 1;
  while (end > 0 && path[end] !== '/') end--;
  return end;
}

const parentOf = (path) => strSlice(path, 0, lastSlash(path));
const baseOf = (path) => strSlice(path, lastSlash(path) + 1);

function readdir(path, options) {
  return attempt(() => {
    const where = pathText('readdir', path);
    options = optionsOf('readdir', options);
    const { recursive, withFileTypes } = options;
    return call('readdir', record('path', where, 'recursive', flag(recursive)), (entries) => {
      const items = list();
      for (let i = 0; i < entries.length; i++) {
        const entry = entries[i];
        if (withFileTypes) push(items, new Dirent(baseOf(own(entry, 'path')), parentOf(own(entry, 'path')), own(entry, 'type')));
        else push(items, recursive ? entryName(path, entry) : own(entry, 'name'));
      }
      return toArray(items);
    });
  });
}

function listFiles(path) {
  return attempt(() => call('readdir', record('path', pathText('listFiles', path)), (entries) => {
    const names = list();
    for (let i = 0; i < entries.length; i++) push(names, own(entries[i], 'name'));
    return toArray(names);
  }, (error) => {
    if (own(error, 'code') === 'ENOENT') return [];
    throw error;
  }));
}

const stat = (name, path, convert) => attempt(() => call('stat', record('path', pathText(name, path)), convert));

function two(name, from, to) {
  return attempt(() => call(name, record('from', pathText(name, from), 'to', pathText(name, to)), nothing));
}

const promises = {
  access: (path) => stat('access', path, nothing),
  appendFile: (path, data, options) => write('appendFile', path, data, options),
  copyFile: (from, to) => two('copyFile', from, to),
  deleteFile: (path) => attempt(() => call('deleteFile', record('path', pathText('deleteFile', path)))),
  exists: (path) => attempt(() => call('exists', record('path', pathText('exists', path)))),
  listFiles,
  mkdir: (path, options) => attempt(() => call(
    'mkdir', record('path', pathText('mkdir', path), 'recursive', flag(optionsOf('mkdir', options).recursive)), nothing,
  )),
  readFile: read,
  readdir,
  rename: (from, to) => two('rename', from, to),
  rm: (path, options) => attempt(() => {
    const { recursive, force } = optionsOf('rm', options);
    return call('rm', record('path', pathText('rm', path), 'recursive', flag(recursive), 'force', flag(force)), nothing);
  }),
  stat: (path) => stat('stat', path, (answer) => new Stats(answer)),
  lstat: (path) => stat('lstat', path, (answer) => new Stats(answer)),
  unlink: (path) => attempt(() => call('rm', record('path', pathText('unlink', path)), nothing)),
  writeFile: (path, data, options) => write('writeFile', path, data, options),
};

// Node's blocking functions exist to say what to use instead.
const blocking = [
  'accessSync', 'appendFileSync', 'copyFileSync', 'existsSync', 'lstatSync', 'mkdirSync', 'readFileSync', 'readdirSync',
  'renameSync', 'rmSync', 'statSync', 'unlinkSync', 'writeFileSync',
];

export const fs = { ...promises, promises: { ...promises } };
for (let i = 0; i < blocking.length; i++) {
  const name = blocking[i];
  const instead = strSlice(name, 0, -4);
  define(fs, name, () => {
    throw new NativeError(`fs.${name} is not available in the sandbox: use await fs.${instead}(...)`);
  }, false);
}
