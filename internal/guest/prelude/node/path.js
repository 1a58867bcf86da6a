// The path module: Node's path.posix, of a library. Relative paths begin at /workspace.

import { join, jsonParse, list, push } from '../intrinsics.js';
import { library } from '../libraries.js';
import { quote, record } from '../text.js';
import { argument } from './refuse.js';

function text(name, value) {
  argument(typeof value === 'string', name, 'of type string', value);
  return quote(value);
}

const call = (name, args) => jsonParse(library('callPath', name, `[${args}]`));
const one = (name) => (path) => call(name, text('path', path));
const many = (name) => (...paths) => {
  const texts = list();
  for (let i = 0; i < paths.length; i++) push(texts, text('path', paths[i]));
  return call(name, join(texts, ','));
};

// part is a property of what format takes, as JSON.
const part = (value) => (value ? quote(`${value}`) : undefined);

export const path = {
  basename: (path, ext) => call('basename', text('path', path) + (ext === undefined ? '' : `,${text('ext', ext)}`)),
  delimiter: ':',
  dirname: one('dirname'),
  extname: one('extname'),
  format: ({ root, dir, base, ext, name }) => call('format', record(
    'root', part(root), 'dir', part(dir), 'base', part(base), 'ext', part(ext && ext[0] !== '.' ? `.${ext}` : ext), 'name', part(name),
  )),
  isAbsolute: one('isAbsolute'),
  join: many('join'),
  normalize: one('normalize'),
  parse: one('parse'),
  relative: (from, to) => call('relative', `${text('from', from)},${text('to', to)}`),
  resolve: many('resolve'),
  sep: '/',
};
path.posix = path;
