// Language tags and the choice of a locale. What no locale fits gets en-US, as ECMA-402 has an implementation's default.
import {
  construct, create, defineProperty, exec, floor, indexOf, isArray, join, keys, lower, method, push, slice, split, str,
  strLastIndexOf, tag, test, upper,
} from '../intrinsics.js';
import { LOCALES } from './locales.js';

export const DEFAULT = 'en-US';
// language-Script-REGION-variants, then extensions and private use (RFC 5646 without its irregular tags).
const TAG = new RegExp('^[a-z]{2,3}(?:-[a-z]{4})?(?:-(?:[a-z]{2}|\\d{3}))?(?:-(?:[a-z\\d]{5,8}|\\d[a-z\\d]{3}))*' +
  '(?:-[a-wy-z\\d](?:-[a-z\\d]{2,8})+)*(?:-x(?:-[a-z\\d]{1,8})+)?$', 'i');

// canonical checks a tag and gives its parts their usual case: en-US, zh-Hant-TW.
function canonical(tag) {
  if (!test(TAG, tag)) throw new RangeError(`Incorrect locale information provided: ${tag}`);
  const parts = split(lower(tag), '-');
  for (let i = 1; i < parts.length && parts[i].length > 1; i++) {
    if (parts[i].length === 2) parts[i] = upper(parts[i]);
    else if (parts[i].length === 4 && i === 1) parts[i] = upper(parts[i][0]) + slice(parts[i], 1);
  }
  return join(parts, '-');
}

// canonicalList is CanonicalizeLocaleList.
export function canonicalList(locales) {
  if (locales === undefined) return [];
  if (locales === null) throw new TypeError('Incorrect locale information provided');
  const list = typeof locales === 'string' || !isArray(locales) ? [locales] : locales;
  const out = [];
  for (let i = 0; i < list.length; i++) {
    const tag = list[i];
    if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) {
      throw new TypeError('Incorrect locale information provided');
    }
    const name = canonical(str(tag));
    if (indexOf(out, name) < 0) push(out, name);
  }
  return out;
}

const names = keys(LOCALES);

// dataName says which record serves a name; a language alone has its first locale's.
function dataName(name) {
  if (LOCALES[name]) return name;
  for (let i = 0; i < names.length; i++) if (slice(names[i], 0, 2) === name) return names[i];
  return undefined;
}

// best finds the longest prefix of a tag that has a record; english restricts it to English.
function best(tag, english) {
  let name = tag;
  const extension = exec(/-[a-z\d]-/, tag);
  if (extension) name = slice(tag, 0, extension.index);
  for (;;) {
    const data = dataName(name);
    if (data && !(english && slice(data, 0, 2) !== 'en')) return { name, data };
    const cut = strLastIndexOf(name, '-');
    if (cut < 0) return undefined;
    name = slice(name, 0, cut);
  }
}

const split1 = create(null); // "locale field" -> its list

// resolve chooses the locale of a formatter: {name, text(field), list(field), hc}; hc is the tag's own hour cycle.
export function resolve(locales, options, english) {
  choice(options, 'localeMatcher', ['lookup', 'best fit'], 'best fit');
  const wanted = canonicalList(locales);
  let found = { name: DEFAULT, data: DEFAULT };
  let hc;
  for (let i = 0; i < wanted.length; i++) {
    const match = best(wanted[i], english);
    if (!match) continue;
    found = match;
    hc = exec(/-u(?:-[a-z\d]+)*?-hc-(h11|h12|h23|h24)/, wanted[i])?.[1];
    break;
  }
  const text = (field) => LOCALES[found.data][field] ?? LOCALES[DEFAULT][field];
  const list = (field) => (split1[`${found.data} ${field}`] ??= split(text(field), '|'));
  return { name: found.name, language: slice(found.name, 0, 2), text, list, hc };
}

// supported is what supportedLocalesOf returns: the wanted tags that have a record.
export function supported(locales, english) {
  const wanted = canonicalList(locales);
  const out = [];
  for (let i = 0; i < wanted.length; i++) if (best(wanted[i], english)) push(out, wanted[i]);
  return out;
}

// choice reads an option that takes one of some strings.
export function choice(options, name, values, otherwise) {
  const value = options?.[name];
  if (value === undefined) return otherwise;
  const text = str(value);
  if (values && indexOf(values, text) < 0) {
    throw new RangeError(`Value ${text} out of range for Intl options property ${name}`);
  }
  return text;
}

// whole reads an option that is an integer between bounds.
export function whole(options, name, low, high, otherwise) {
  const value = options?.[name];
  if (value === undefined) return otherwise;
  if (!(value >= low && value <= high)) throw new RangeError(`${name} value is out of range.`);
  return floor(value);
}

// objectOf is GetOptionsObject with ECMA-402's older leniency: undefined is no options.
export function objectOf(options) {
  if (options === null) throw new TypeError('Cannot convert null to an options object');
  return options;
}

// service makes a constructor of Intl from a class: callable without new, with supportedLocalesOf.
export function service(cls, name, english, callable) {
  const Service = function (locales, options) {
    if (new.target === undefined && !callable) throw new TypeError(`Constructor Intl.${name} requires 'new'`);
    return construct(cls, [locales, options], new.target ?? Service);
  };
  defineProperty(Service, 'prototype', { __proto__: null, value: cls.prototype, writable: false });
  method(cls.prototype, 'constructor', Service);
  method(Service, 'supportedLocalesOf', (locales) => supported(locales, english));
  defineProperty(Service, 'name', { __proto__: null, value: name, configurable: true });
  defineProperty(Service, 'length', { __proto__: null, value: 0, configurable: true });
  tag(Service, name, `Intl.${name}`);
  return Service;
}
