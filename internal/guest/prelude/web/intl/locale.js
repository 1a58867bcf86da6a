// Language tags and the choice of a locale. A locale that Node has and that has no data here is an error: another's formats would pass for its own.
// One that nobody has falls back as in Node.
import {
  construct, create, defineProperty, floor, fromCodePoint, indexOf, isArray, join, keys, push, regExpExec, split, strIncludes, strIndexOf, strSlice, toLowerCase,
  toNumber, toStr, toUpperCase,
} from '../../intrinsics.js';
import { replace, test } from '../../text.js';
import { markNative } from '../../brands.js';
import { method, tag } from '../shapes.js';
import { LOCALES } from './locales.js';
import { ABSENT } from './names.js';

export const DEFAULT = 'en-US';
// language-Script-REGION-variants, then extensions and private use (RFC 5646 without its irregular tags).
const TAG = new RegExp('^(?:[a-z]{2,3}|[a-z]{5,8})(?:-[a-z]{4})?(?:-(?:[a-z]{2}|\\d{3}))?(?:-(?:[a-z\\d]{5,8}|\\d[a-z\\d]{3}))*' +
  '(?:-[a-wy-z\\d](?:-[a-z\\d]{2,8})+)*(?:-x(?:-[a-z\\d]{1,8})+)?$', 'i');

// canonical checks a tag and gives its parts their usual case: en-US, zh-Hant-TW.
function canonical(tag) {
  if (!test(TAG, tag)) throw new RangeError(`Incorrect locale information provided: ${tag}`);
  const parts = split(toLowerCase(tag), '-');
  for (let i = 1; i < parts.length && parts[i].length > 1; i++) {
    if (parts[i].length === 2) parts[i] = toUpperCase(parts[i]);
    else if (parts[i].length === 4 && i === 1) parts[i] = toUpperCase(parts[i][0]) + strSlice(parts[i], 1);
    if (parts[i] === 'UK') parts[i] = 'GB';
  }
  const at = strIndexOf(PREFERRED, `|${parts[0]}=`);
  if (at >= 0) parts[0] = split(strSlice(PREFERRED, at + parts[0].length + 2), '|')[0];
  return join(parts, '-');
}

// The languages whose usual tag is another one.
const PREFERRED = '|ces=cs|chi=zh|cmn=zh|cze=cs|dan=da|deu=de|dut=nl|ell=el|eng=en|fin=fi|fra=fr|fre=fr|ger=de|gre=el|heb=he|hrv=hr|hun=hu|in=id|ind=id|' +
  'ita=it|iw=he|ji=yi|jpn=ja|kor=ko|mo=ro|mol=ro|nld=nl|nob=nb|pol=pl|por=pt|ron=ro|rum=ro|rus=ru|scr=hr|slk=sk|slo=sk|spa=es|swe=sv|tl=fil|tur=tr|ukr=uk|zho=zh|';

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
    const name = canonical(toStr(tag));
    if (indexOf(out, name) < 0) push(out, name);
  }
  return out;
}

const names = keys(LOCALES);
const SCRIPTS = { __proto__: null, 'zh-Hans': 'zh-CN', 'zh-Hans-CN': 'zh-CN', 'zh-Hant': 'zh-TW', 'zh-Hant-TW': 'zh-TW' };

// find returns {name, data} of a tag: its name without extensions and what nobody knows, and the record that serves it; ABSENT where Node has one,
// undefined where nobody has. A language alone has its first locale's. A region is no other's: its dates and numbers may be any.
function find(tag) {
  const extension = regExpExec(/-[a-z\d]-/, tag);
  const parts = split(extension ? strSlice(tag, 0, extension.index) : tag, '-');
  for (; ; parts.length--) {
    const name = join(parts, '-');
    const wanted = SCRIPTS[name] ?? ALIASES[name] ?? name;
    if (LOCALES[wanted]) return { name, data: wanted };
    if (strIncludes(ABSENT, `|${parts[0]}-${parts[parts.length - 1]}|`)) return ABSENT;
    if (parts.length > 1) continue;
    for (let i = 0; i < names.length; i++) if (split(names[i], '-')[0] === wanted) return { name, data: names[i] };
    return strIncludes(ABSENT, `|${name}|`) ? ABSENT : undefined;
  }
}

const ALIASES = { __proto__: null, no: 'nb-NO', 'no-NO': 'nb-NO' };

// missing says that no wanted locale is here, and which are.
function missing(wanted) {
  const language = split(wanted, '-')[0];
  const near = [];
  for (let i = 0; i < names.length; i++) if (split(names[i], '-')[0] === language) push(near, names[i]);
  return new RangeError(`Intl here has no data of the locale '${wanted}'; there are ${join(near.length > 0 ? near : names, ', ')}`);
}

const split1 = create(null); // "locale field" -> its list

// resolve chooses the locale of a formatter: {name, language, plural, text(field), list(field)} and its tag's keywords.
export function resolve(locales, options) {
  choice(options, 'localeMatcher', ['lookup', 'best fit'], 'best fit');
  const wanted = canonicalList(locales);
  let found;
  let absent;
  let extension = {};
  for (let i = 0; i < wanted.length && !found; i++) {
    found = find(wanted[i]);
    if (found === ABSENT) {
      absent ??= wanted[i];
      found = undefined;
    } else if (found) {
      extension = keywords(wanted[i]);
    }
  }
  if (!found && absent) throw missing(absent);
  found ??= { name: DEFAULT, data: DEFAULT };
  const text = (field) => LOCALES[found.data][field] ?? LOCALES[DEFAULT][field];
  const list = (field) => (split1[`${found.data} ${field}`] ??= split(text(field), '|'));
  const language = strSlice(found.data, 0, 2);
  return { name: found.name, language, plural: found.data === 'pt-PT' ? found.data : language, text, list, ...extension };
}

// keywords reads the Unicode extension of a tag: {hc, kn, kf}. What would change the result and is not here is an error.
function keywords(tag) {
  const out = {};
  const extension = regExpExec(/-u((?:-[a-z\d]{2,8})+)/, tag);
  if (!extension) return out;
  const parts = split(strSlice(extension[1], 1), '-');
  for (let i = 0; i < parts.length; i++) {
    if (parts[i].length !== 2) continue;
    const value = parts[i + 1]?.length > 2 ? parts[i + 1] : '';
    if (parts[i] === 'hc' && test(/^h(?:11|12|23|24)$/, value)) out.hc = value;
    else if (parts[i] === 'kn') out.kn = value !== 'false';
    else if (parts[i] === 'kf') out.kf = value;
    else if (parts[i] === 'nu' && (value === 'latn' || ZEROS[value])) out.nu = value;
    else if (!(parts[i] === 'ca' && (value === 'gregory' || value === 'iso8601'))) {
      throw new RangeError(`Intl here has no '${parts[i]}-${value}' (of '${tag}'): it has the Gregorian calendar and decimal digits`);
    }
  }
  return out;
}

// The digit zero of the numbering systems that have their digits in a row.
const ZEROS = {
  __proto__: null, arab: 0x660, arabext: 0x6f0, beng: 0x9e6, deva: 0x966, fullwide: 0xff10, gujr: 0xae6, guru: 0xa66, khmr: 0x17e0, knda: 0xce6,
  laoo: 0xed0, mlym: 0xd66, mymr: 0x1040, orya: 0xb66, tamldec: 0xbe6, telu: 0xc66, thai: 0xe50, tibt: 0xf20,
};

// NUMBERINGS are the names of the numbering systems.
export const NUMBERINGS = () => {
  const all = keys(ZEROS);
  push(all, 'latn');
  return all;
};

// numberingOf is the numbering system that options or else the locale's tag ask for.
export function numberingOf(locale, options) {
  const name = options?.numberingSystem === undefined ? locale.nu ?? 'latn' : toStr(options.numberingSystem);
  if (name !== 'latn' && !ZEROS[name]) throw new RangeError(`Intl here has no numberingSystem '${name}'; there are latn, ${join(keys(ZEROS), ', ')}`);
  return name;
}

// digitsIn writes the digits of a text in a numbering system.
export function digitsIn(system, text) {
  return system === 'latn' ? text : replace(/[0-9]/g, text, (m) => fromCodePoint(ZEROS[system] + toNumber(m[0])));
}

// supported is what supportedLocalesOf returns: the wanted tags that have a record.
export function supported(locales) {
  const wanted = canonicalList(locales);
  const out = [];
  for (let i = 0; i < wanted.length; i++) {
    const found = find(wanted[i]);
    if (found && found !== ABSENT) push(out, wanted[i]);
  }
  return out;
}

// plain refuses an option with another value than the one that is here.
export function plain(name, options, only) {
  const value = options?.[name];
  if (value === undefined || toStr(value) === only) return;
  throw new RangeError(`Intl here has no ${name} '${toStr(value)}'${only === undefined ? '' : `, only '${only}'`}`);
}

// absent is the error of a function that is not here.
export function absent(name) {
  throw new RangeError(`${name} is not available in the sandbox: format each value by itself`);
}

// choice reads an option that takes one of some strings.
export function choice(options, name, values, otherwise) {
  const value = options?.[name];
  if (value === undefined) return otherwise;
  const text = toStr(value);
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
export function service(cls, name, callable) {
  const Service = function (locales, options) {
    if (new.target === undefined && !callable) throw new TypeError(`Constructor Intl.${name} requires 'new'`);
    return construct(cls, [locales, options], new.target ?? Service);
  };
  defineProperty(Service, 'prototype', { __proto__: null, value: cls.prototype, writable: false });
  method(cls.prototype, 'constructor', Service);
  method(Service, 'supportedLocalesOf', (locales) => supported(locales));
  defineProperty(Service, 'name', { __proto__: null, value: name, configurable: true });
  defineProperty(Service, 'length', { __proto__: null, value: 0, configurable: true });
  tag(Service, name, `Intl.${name}`);
  markNative(Service);
  return Service;
}
