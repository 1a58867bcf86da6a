// The url module: the global URL, and the functions from before it.

import {
  apply, define, getOwnPropertyDescriptor, jsonParse, jsonStringify, NativeTypeError, regExpExec, toStr,
} from '../intrinsics.js';
import { library } from '../libraries.js';
import { URL } from '../web/url.js';
import { URLSearchParams } from '../web/searchparams.js';
import { path } from './path.js';
import { querystring } from './querystring.js';
import { argument, coded } from './refuse.js';

// The properties of what parse returns, in Node's order.
const properties = [
  'protocol', 'slashes', 'auth', 'host', 'port', 'hostname', 'hash', 'search', 'query', 'pathname', 'path', 'href',
];

class Url {}

function textArgument(name, value) {
  argument(typeof value === 'string', name, 'of type string', value);
  return value;
}

function parse(text, parseQuery, slashesDenoteHost) {
  const values = jsonParse(library('parseURL', textArgument('url', text), slashesDenoteHost === true));
  const url = new Url();
  for (let i = 0; i < properties.length; i++) define(url, properties[i], values[properties[i]]);
  if (parseQuery) {
    define(url, 'search', url.search ?? '');
    define(url, 'query', querystring.parse(url.query ?? ''));
  }
  return url;
}

const { set: setHash } = getOwnPropertyDescriptor(URL.prototype, 'hash');
const { set: setSearch } = getOwnPropertyDescriptor(URL.prototype, 'search');
const { set: setUsername } = getOwnPropertyDescriptor(URL.prototype, 'username');
const { set: setPassword } = getOwnPropertyDescriptor(URL.prototype, 'password');
const { get: href } = getOwnPropertyDescriptor(URL.prototype, 'href');

// formatURL leaves parts of a URL out.
function formatURL(value, options) {
  const url = new URL(apply(href, value, []));
  if (options?.fragment === false) apply(setHash, url, ['']);
  if (options?.search === false) apply(setSearch, url, ['']);
  if (options?.auth === false) {
    apply(setUsername, url, ['']);
    apply(setPassword, url, ['']);
  }
  return apply(href, url, []);
}

function format(value, options) {
  if (typeof value === 'string') value = parse(value);
  argument(value !== null && typeof value === 'object', 'urlObject', 'an object or a string', value);
  if (value instanceof URL) return formatURL(value, options);
  const given = { __proto__: null };
  for (let i = 0; i < properties.length; i++) {
    const name = properties[i];
    const property = value[name];
    if (typeof property === 'string' || typeof property === 'boolean' || typeof property === 'number') given[name] = property;
  }
  const { query } = value;
  if (query !== null && typeof query === 'object') {
    const text = querystring.stringify(query);
    if (!given.search && text !== '') given.search = `?${text}`;
  }
  return library('formatURL', jsonStringify(given));
}

function fileURLToPath(value) {
  const url = new URL(toStr(value));
  if (url.protocol !== 'file:') throw coded(NativeTypeError, 'ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file');
  if (url.hostname !== '') throw coded(NativeTypeError, 'ERR_INVALID_FILE_URL_HOST', 'File URL host must be "localhost" or empty on linux');
  if (regExpExec(/%2f/i, url.pathname) !== null) {
    throw coded(NativeTypeError, 'ERR_INVALID_FILE_URL_PATH', 'File URL path must not include encoded / characters');
  }
  return querystring.unescape(url.pathname);
}

function pathToFileURL(name) {
  const url = new URL('file:///');
  let escaped = '';
  const full = path.resolve(textArgument('path', name)) + (name[name.length - 1] === '/' && name !== '/' ? '/' : '');
  const special = { __proto__: null, '%': '%25', '\\': '%5C', '\n': '%0A', '\r': '%0D', '\t': '%09', '?': '%3F', '#': '%23' };
  for (let i = 0; i < full.length; i++) escaped += special[full[i]] ?? full[i];
  url.pathname = escaped;
  return url;
}

const domainToUnicode = (domain) => library('domainToUnicode', toStr(domain));

// domainToASCII gives '' for what is no domain.
function domainToASCII(domain) {
  try {
    return new URL(`ws://${domain}`).hostname;
  } catch {
    return '';
  }
}

export const url = {
  URL, URLSearchParams, Url, parse, format, fileURLToPath, pathToFileURL, domainToASCII, domainToUnicode,
  resolve: (from, to) => library('resolveURL', textArgument('from', from), textArgument('to', to)),
};
