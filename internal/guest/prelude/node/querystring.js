// The querystring module.

import {
  apply, decodeURIComponent, define, encodeURIComponent, isArray, isFinite, keys, list, NativeRangeError, own, push, regExpExec, strIndexOf,
  strSlice, toArray, toStr,
} from '../intrinsics.js';
import { Buffer } from '../web/buffer.js';
import { coded } from './refuse.js';

const { concat, from } = Buffer;
const { toString } = Buffer.prototype;
const bufferFrom = (text, encoding) => apply(from, Buffer, [text, encoding]);

function escape(text) {
  text = typeof text === 'object' ? toStr(text) : `${text}`;
  try {
    return encodeURIComponent(text);
  } catch {
    throw coded(NativeRangeError, 'ERR_INVALID_URI', 'URI malformed');
  }
}

const byte = /%([\da-f]{2})/gi;

// unescapeBuffer undoes what can be undone, whatever it is text of.
function unescapeBuffer(text) {
  text = toStr(text);
  const parts = list();
  let from = 0;
  byte.lastIndex = 0;
  for (let found; (found = regExpExec(byte, text)) !== null;) {
    push(parts, bufferFrom(strSlice(text, from, found.index)), bufferFrom(found[1], 'hex'));
    from = found.index + found[0].length;
  }
  push(parts, bufferFrom(strSlice(text, from)));
  return apply(concat, Buffer, [toArray(parts)]);
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

const plusses = (text) => {
  let out = '';
  for (let from = 0; ;) {
    const at = strIndexOf(text, '+', from);
    if (at < 0) return out + strSlice(text, from);
    out += `${strSlice(text, from, at)} `;
    from = at + 1;
  }
};

// parse returns an object without a prototype, as in Node. A name that comes twice has an array.
function parse(text, separator, equals, options) {
  const found = { __proto__: null };
  if (typeof text !== 'string' || text === '') return found;
  separator ||= '&';
  equals ||= '=';
  const most = options?.maxKeys ?? 1000;
  const decode = (part) => {
    part = plusses(part);
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
