// The querystring module.

import {
  apply, decodeURIComponent, define, encodeURIComponent, fromCharCode, isArray, isFinite, keys, list, NativeRangeError, own, parseInt, push,
  strIndexOf, strSlice, toArray, toStr,
} from '../intrinsics.js';
import { binary, encode } from '../bytes.js';
import { replace } from '../text.js';
import { Buffer } from '../web/buffer.js';
import { coded } from './refuse.js';

const { from } = Buffer;
const { toString } = Buffer.prototype;

function escape(text) {
  text = typeof text === 'object' ? toStr(text) : `${text}`;
  try {
    return encodeURIComponent(text);
  } catch {
    throw coded(NativeRangeError, 'ERR_INVALID_URI', 'URI malformed');
  }
}

// unescapeBuffer undoes what can be undone, whatever it is text of.
function unescapeBuffer(text) {
  const bytes = replace(/%([\da-f]{2})/gi, binary(encode(toStr(text))), (m) => fromCharCode(parseInt(m[1], 16)));
  return apply(from, Buffer, [bytes, 'latin1']);
}

function unescape(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return apply(toString, unescapeBuffer(text), []);
  }
}

const primitive = (value) => {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return isFinite(value) ? `${value}` : '';
  return typeof value === 'bigint' || typeof value === 'boolean' ? `${value}` : '';
};

function stringify(object, separator, equals, options) {
  if (object === null || typeof object !== 'object') return '';
  const encode = options?.encodeURIComponent ?? escape;
  const names = keys(object);
  let text = '';
  const add = (name, value) => {
    text += `${text === '' ? '' : separator || '&'}${encode(primitive(name))}${equals || '='}${encode(primitive(value))}`;
  };
  for (let i = 0; i < names.length; i++) {
    const value = object[names[i]];
    if (isArray(value)) for (let k = 0; k < value.length; k++) add(names[i], value[k]);
    else add(names[i], value);
  }
  return text;
}

// parse returns an object without a prototype, as in Node. A name that comes twice has an array.
function parse(text, separator, equals, options) {
  const found = { __proto__: null };
  if (typeof text !== 'string' || text === '') return found;
  separator ||= '&';
  equals ||= '=';
  const most = options?.maxKeys ?? 1000;
  const decode = (part) => {
    part = replace(/\+/g, part, () => ' ');
    if (!options?.decodeURIComponent) return unescape(part);
    try {
      return options.decodeURIComponent(part);
    } catch {
      return unescape(part);
    }
  };
  let count = 0;
  for (let from = 0; from <= text.length && (most <= 0 || count < most);) {
    let end = strIndexOf(text, separator, from);
    if (end < 0) end = text.length;
    const part = strSlice(text, from, end);
    from = end + separator.length;
    if (part === '') continue;
    count++;
    const at = strIndexOf(part, equals);
    const name = decode(at < 0 ? part : strSlice(part, 0, at));
    const value = at < 0 ? '' : decode(strSlice(part, at + equals.length));
    const before = own(found, name);
    if (before === undefined) define(found, name, value);
    else if (isArray(before)) push(before, value);
    else {
      const both = list();
      push(both, before, value);
      define(found, name, toArray(both));
    }
  }
  return found;
}

export const querystring = {
  decode: parse, encode: stringify, escape, parse, stringify, unescape, unescapeBuffer,
};
