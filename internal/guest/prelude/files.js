// fs: the files of /skills and /workspace. The names are those of Node's fs, in its three forms (promises, callbacks and
// synchronous), with the original runtime's listFiles, exists and deleteFile. Paths go to the host as the program wrote them.

import {
  after, apply, attempt, define, endsWith, freeze, global, keys, lastIndexOf, list, NativeDate, NativeTypeError, own, push, regExpExec, startsWith,
  strSlice, toArray, toLowerCase,
} from './intrinsics.js';
import { bytesOf, fromBase64, toBase64 } from './bytes.js';
import { request, requestFile } from './calls.js';
import { encode } from './json.js';
import { refuse } from './node/refuse.js';
import { uncaught } from './outcome.js';
import { random } from './random.js';
import { quote, record } from './text.js';
import { kindName } from './tools.js';

let toBuffer; // makes a Buffer of bytes
let bufferText; // (bytes, encoding) => text in one of Buffer's other encodings
let textBytes; // (text, encoding) => bytes

// bindBuffer takes Buffer as web/ made it, before guest code can replace it.
export function bindBuffer() {
  const { Buffer } = global;
  const { from } = Buffer;
  const { toString } = Buffer.prototype;
  toBuffer = (bytes) => apply(from, Buffer, [bytes.buffer]);
  bufferText = (bytes, encoding) => apply(toString, toBuffer(bytes), [encoding]);
  textBytes = (text, encoding) => apply(from, Buffer, [text, encoding]);
}

const textEncodings = /^(?:base64|base64url|hex|binary|latin1|ascii|utf16le|utf-16le|ucs2|ucs-2)$/i;
let warned = false;

// installToString tells programs that ask a text for an encoding of its bytes: of a file that was read as text it would be the text again.
export function installToString(warn) {
  const { toString } = String.prototype;
  const functions = {
    toString(...args) {
      const text = apply(toString, this, []);
      if (!warned && typeof args[0] === 'string' && regExpExec(textEncodings, args[0]) !== null) {
        warned = true;
        warn(`toString('${args[0]}') of a string is the string itself: read the file's bytes with fs.readFile(path, '${args[0]}'), ` +
          `or write Buffer.from(text).toString('${args[0]}')`);
      }
      return text;
    },
  };
  define(String.prototype, 'toString', functions.toString, false);
}

// call is a host call that is still to be made: convert makes the program's value of the host's, recover that of an error.
const call = (name, args, convert, recover) => ({ __proto__: null, name, args, convert, recover });
const nothing = () => undefined;
const flag = (value) => (value ? 'true' : undefined);

function pathText(name, path) {
  if (typeof path === 'string') return quote(path);
  throw new NativeTypeError(`fs.${name} takes the path as a string, like '/workspace/data.json'; got ${kindName(path)}`);
}

// optionsOf returns a call's options: an object, or a string that is the encoding.
function optionsOf(options) {
  if (typeof options === 'string' || options === null) return { __proto__: null, encoding: options };
  return typeof options === 'object' ? options : { __proto__: null };
}

const normal = (encoding) => {
  const name = toLowerCase(`${encoding}`);
  return name === 'utf-8' ? 'utf8' : name;
};

function write(name, path, data, options) {
  const where = pathText(name, path);
  options = optionsOf(options);
  const convert = name === 'writeFile' ? undefined : nothing;
  const how = options.flag ?? 'w';
  if (how !== 'w' && how !== 'a' && how !== 'a+' && how !== 'as') {
    throw new NativeTypeError(`fs.${name} has the flags 'w' and 'a'; got '${how}': ask fs.existsSync(path) before it`);
  }
  const operation = name === 'appendFile' || how !== 'w' ? 'appendFile' : 'writeFile';
  if (typeof data === 'string') {
    const encoding = normal(options.encoding ?? 'utf8');
    if (encoding === 'utf8') return call(operation, record('path', where, 'text', quote(data)), convert);
    if (encoding === 'base64') return call(operation, record('path', where, 'base64', quote(data)), convert);
    data = textBytes(data, encoding);
  }
  const bytes = bytesOf(data);
  if (bytes) return call(operation, record('path', where, 'base64', quote(toBase64(bytes))), convert);
  throw new NativeTypeError(
    `fs.${name} writes a string or bytes; got ${kindName(data)}: use JSON.stringify(data, null, 2) for an object, ` +
    'String(data) for another value',
  );
}

// reader makes readFile, which gives text, or a Buffer if the encoding is null or 'buffer'. offset and length take a range,
// in bytes.
const reader = (unsaid) => (path, options) => {
  const where = pathText('readFile', path);
  options = optionsOf(options);
  const encoding = options.encoding === null ? 'buffer' : normal(options.encoding ?? unsaid);
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
};

// readBytes is the promise of a file's bytes.
export function readBytes(path) {
  return request('fs', 'readFile', record('path', quote(path), 'encoding', '"base64"'), (answer) => fromBase64(own(answer, 'base64')));
}

function range(name, value) {
  if (value === undefined) return undefined;
  if (typeof value === 'number') return encode(value, name, 0);
  throw new NativeTypeError(`fs.readFile takes ${name} as a number of bytes; got ${kindName(value)}`);
}

class Entry {
  isFile() { return this.type === 'file'; }
  isDirectory() { return this.type === 'directory'; }
  isSymbolicLink() { return false; }
}

class Dirent extends Entry {
  constructor(name, parentPath, type) {
    super();
    define(this, 'name', name);
    define(this, 'parentPath', parentPath);
    define(this, 'path', parentPath);
    define(this, 'type', type);
  }
}

class Stats extends Entry {
  constructor(answer) {
    super();
    const modified = own(answer, 'mtimeMs');
    define(this, 'type', own(answer, 'type'));
    define(this, 'size', own(answer, 'size'));
    define(this, 'mtimeMs', modified);
    define(this, 'mtime', new NativeDate(modified));
  }
}

// entryName is an entry's name as readdir gives it: below a directory, its path from there.
function entryName(directory, entry) {
  const prefix = endsWith(directory, '/') ? directory : `${directory}/`;
  const path = own(entry, 'path');
  return startsWith(path, prefix) ? strSlice(path, prefix.length) : own(entry, 'name');
}

function readdir(path, options, caller = 'readdir') {
  const where = pathText(caller, path);
  const { recursive, withFileTypes } = optionsOf(options);
  return call('readdir', record('path', where, 'recursive', flag(recursive)), (entries) => {
    const items = list();
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i];
      const full = own(entry, 'path');
      const slash = lastIndexOf(full, '/');
      if (withFileTypes) push(items, new Dirent(strSlice(full, slash + 1), strSlice(full, 0, slash), own(entry, 'type')));
      else push(items, recursive ? entryName(path, entry) : own(entry, 'name'));
    }
    return toArray(items);
  });
}

// absent makes a value of the error that there is no such file.
const absent = (value) => (error) => {
  if (own(error, 'code') === 'ENOENT') return value();
  throw error;
};

function stat(path, options) {
  const recover = optionsOf(options).throwIfNoEntry === false ? absent(nothing) : undefined;
  return call('stat', record('path', pathText('stat', path)), (answer) => new Stats(answer), recover);
}

// mkdtemp makes a directory whose name is the prefix and six characters of the run's randomness.
function mkdtemp(prefix) {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
  pathText('mkdtemp', prefix);
  const drawn = random(6);
  let path = prefix;
  for (let i = 0; i < 6; i++) path += letters[drawn[i] % letters.length];
  return call('mkdir', record('path', quote(path)), () => path);
}

const two = (name) => (from, to) => call(name, record('from', pathText(name, from), 'to', pathText(name, to)), nothing);

// operations make the calls of each function. Node's forms (synchronous, with a callback, and in fs.promises) are theirs in all but one: without
// an encoding Node's readFile gives a Buffer.
const operations = {
  __proto__: null,
  access: (path) => call('stat', record('path', pathText('access', path)), nothing),
  appendFile: (path, data, options) => write('appendFile', path, data, options),
  copyFile: (from, to, mode) => {
    if (mode) throw new NativeTypeError('fs.copyFile has no modes: ask fs.existsSync(path) before it');
    return two('copyFile')(from, to);
  },
  deleteFile: (path) => call('deleteFile', record('path', pathText('deleteFile', path))),
  exists: (path) => call('exists', record('path', pathText('exists', path))),
  listFiles: (path) => ({ ...readdir(path, undefined, 'listFiles'), recover: absent(() => []) }),
  mkdir: (path, options) => call(
    'mkdir', record('path', pathText('mkdir', path), 'recursive', flag(optionsOf(options).recursive)), nothing,
  ),
  mkdtemp,
  readFile: reader('utf8'),
  readdir: (path, options) => readdir(path, options),
  rename: two('rename'),
  rm: (path, options) => {
    const { recursive, force } = optionsOf(options);
    return call('rm', record('path', pathText('rm', path), 'recursive', flag(recursive), 'force', flag(force)), nothing);
  },
  stat,
  lstat: stat,
  unlink: (path) => call('rm', record('path', pathText('unlink', path)), nothing),
  writeFile: (path, data, options) => write('writeFile', path, data, options),
};
const readBuffer = reader('buffer');

// promised is the form that returns a promise.
const promised = (operation, args) => attempt(() => {
  const { name, args: text, convert, recover } = apply(operation, undefined, args);
  return request('fs', name, text, convert, recover);
});

// blocking is the synchronous form.
function blocking(operation, args) {
  const { name, args: text, convert, recover } = apply(operation, undefined, args);
  let value;
  try {
    value = requestFile(name, text);
  } catch (error) {
    if (recover) return recover(error);
    throw error;
  }
  return convert ? convert(value) : value;
}

let calledBackLater = 0;

// awaitedByCallback is the number of calls with a callback that it has not got its answer of.
export function awaitedByCallback() {
  return calledBackLater;
}

// calledBack is the form with a callback. What the callback throws fails the run, as in a timer.
function calledBack(operation, args, callback, only) {
  calledBackLater++;
  const tell = (error, value) => {
    calledBackLater--;
    try {
      if (only) callback(value ?? false);
      else if (error) callback(error);
      else callback(null, value);
    } catch (thrown) {
      uncaught(thrown);
    }
  };
  after(promised(operation, args), (value) => tell(undefined, value), tell);
}

// constants are those of access.
const constants = freeze({ F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 });

export const fs = {};
fs.promises = { constants };
const names = keys(operations);
for (let i = 0; i < names.length; i++) {
  const name = names[i];
  const operation = operations[name];
  const nodes = name === 'readFile' ? readBuffer : operation;
  const forms = {
    promise: { [name]: (...args) => promised(nodes, args) }[name],
    // With a function as its last argument it is Node's.
    [name](...args) {
      const callback = args[args.length - 1];
      if (typeof callback !== 'function') return promised(operation, args);
      args.length--;
      return calledBack(nodes, args, callback, name === 'exists');
    },
    [`${name}Sync`]: (...args) => blocking(nodes, args),
  };
  define(fs, name, forms[name]);
  define(fs.promises, name, forms.promise);
  define(fs, `${name}Sync`, forms[`${name}Sync`]);
}
define(fs, 'constants', constants);
define(fs.exists, Symbol.for('nodejs.util.promisify.custom'), fs.promises.exists); // its callback gets no error
const whole = 'read whole files with fs.readFile, or ranges with its offset and length; write with fs.writeFile and fs.appendFile';
refuse('fs', fs, [
  'createReadStream', 'createWriteStream', 'open', 'openSync', 'opendir', 'opendirSync', 'read', 'readSync', 'write', 'writeSync',
  'close', 'closeSync', 'watch', 'watchFile',
], whole);
refuse('fs.promises', fs.promises, ['open', 'opendir', 'watch'], whole);
refuse('fs', fs, [
  'chmod', 'chmodSync', 'chown', 'chownSync', 'link', 'linkSync', 'symlink', 'symlinkSync', 'readlink', 'readlinkSync', 'utimes', 'utimesSync',
], 'files have no owners, modes and links here');
refuse('fs', fs, ['rmdir', 'rmdirSync', 'cp', 'cpSync', 'realpath', 'realpathSync', 'truncate', 'truncateSync'],
  "use fs.rm(path, {recursive: true}), fs.copyFile for each file of fs.readdir(path, {recursive: true}), or fs.writeFile(path, '')");
