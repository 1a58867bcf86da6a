// The path module: Node's path.posix.

import {
  charCodeAt, join as joinList, lastIndexOf, list, NativeTypeError, push, startsWith, strIndexOf, strSlice,
} from '../intrinsics.js';
import { kindName } from '../tools.js';

function text(name, value) {
  if (typeof value === 'string') return value;
  throw new NativeTypeError(`the "${name}" argument must be a string; got ${kindName(value)}`);
}

// segments resolves "." and ".." and empty parts; above keeps ".." that go beyond the start.
function segments(path, above) {
  const parts = list();
  for (let from = 0; from <= path.length;) {
    let end = strIndexOf(path, '/', from);
    if (end < 0) end = path.length;
    const part = strSlice(path, from, end);
    if (part === '..') {
      if (parts.length > 0 && parts[parts.length - 1] !== '..') parts.length--;
      else if (above) push(parts, part);
    } else if (part !== '' && part !== '.') {
      push(parts, part);
    }
    from = end + 1;
  }
  return parts;
}

const ends = (path) => path.length > 0 && charCodeAt(path, path.length - 1) === 47;

function normalize(path) {
  if (text('path', path) === '') return '.';
  const absolute = isAbsolute(path);
  const body = joinList(segments(path, !absolute), '/');
  const slash = ends(path) && body !== '' ? '/' : '';
  if (body === '' && !absolute) return ends(path) ? './' : '.';
  return (absolute ? '/' : '') + body + slash;
}

const isAbsolute = (path) => startsWith(text('path', path), '/');

function join(...paths) {
  const parts = list();
  for (let i = 0; i < paths.length; i++) {
    if (text('path', paths[i]) !== '') push(parts, paths[i]);
  }
  return parts.length === 0 ? '.' : normalize(joinList(parts, '/'));
}

// resolve starts from /workspace, where relative paths of files go.
function resolve(...paths) {
  let full = '';
  for (let i = paths.length - 1; i >= 0 && !startsWith(full, '/'); i--) {
    if (text('path', paths[i]) !== '') full = full === '' ? paths[i] : `${paths[i]}/${full}`;
  }
  if (!startsWith(full, '/')) full = full === '' ? '/workspace' : `/workspace/${full}`;
  return `/${joinList(segments(full, false), '/')}`;
}

function trimSlashes(path) {
  let end = path.length;
  while (end > 1 && charCodeAt(path, end - 1) === 47) end--;
  return strSlice(path, 0, end);
}

function dirname(path) {
  if (text('path', path) === '') return '.';
  const trimmed = trimSlashes(path);
  const at = lastIndexOf(trimmed, '/');
  if (at < 0) return '.';
  return at === 0 ? '/' : trimSlashes(strSlice(trimmed, 0, at));
}

function basename(path, suffix) {
  const trimmed = trimSlashes(text('path', path));
  const base = trimmed === '/' ? '' : strSlice(trimmed, lastIndexOf(trimmed, '/') + 1);
  if (suffix === undefined || base === suffix) return base;
  return base.length > suffix.length && lastIndexOf(base, text('ext', suffix)) === base.length - suffix.length
    ? strSlice(base, 0, base.length - suffix.length)
    : base;
}

function extname(path) {
  const base = basename(path);
  const dot = lastIndexOf(base, '.');
  return dot <= 0 || base === '..' ? '' : strSlice(base, dot);
}

function relative(from, to) {
  const a = segments(resolve(from), false);
  const b = segments(resolve(to), false);
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  const parts = list();
  for (let i = same; i < a.length; i++) push(parts, '..');
  for (let i = same; i < b.length; i++) push(parts, b[i]);
  return joinList(parts, '/');
}

function parse(path) {
  const base = basename(path);
  const ext = extname(path);
  const root = isAbsolute(path) ? '/' : '';
  const at = lastIndexOf(trimSlashes(path), '/');
  return { root, dir: at < 0 ? '' : dirname(path), base, ext, name: strSlice(base, 0, base.length - ext.length) };
}

function format(parts) {
  const dir = parts.dir || parts.root || '';
  const base = parts.base || `${parts.name ?? ''}${parts.ext ?? ''}`;
  if (dir === '') return base;
  return dir === parts.root ? dir + base : `${dir}/${base}`;
}

export const path = {
  basename, delimiter: ':', dirname, extname, format, isAbsolute, join, normalize, parse, relative, resolve, sep: '/',
};
path.posix = path;
