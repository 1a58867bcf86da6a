// Intl, and the methods of the language that are defined by it.
import {
  bigintValueOf, create, dateGetTime, defineProperty, getPrototypeOf, join, NativeSet, NativeUint8Array, numberValueOf, push, setAdd,
  setDelete, setHas, toStr, typedArrayLength,
} from '../../intrinsics.js';
import { method } from '../shapes.js';
import { IntlCollator } from './collator.js';
import { dateTimeFormats } from './datetime.js';
import { IntlDisplayNames } from './displaynames.js';
import { lowerIn, upperIn } from './case.js';
import { canonicalList } from './locale.js';
import { IntlNumberFormat } from './number.js';
import { IntlSegmenter } from './segmenter.js';
import { IntlLocale, supportedValuesOf } from './tags.js';
import { IntlListFormat, IntlPluralRules, IntlRelativeTimeFormat } from './words.js';

// intlObject makes Intl and patches toLocaleString and its like.
export function intlObject(ctx) {
  const { IntlDateTimeFormat, make } = dateTimeFormats(ctx);
  const Intl = create(Object.prototype);
  method(Intl, 'getCanonicalLocales', (locales) => canonicalList(locales));
  method(Intl, 'supportedValuesOf', (key) => supportedValuesOf(key));
  const services = {
    Collator: IntlCollator, DateTimeFormat: IntlDateTimeFormat, DisplayNames: IntlDisplayNames, ListFormat: IntlListFormat, Locale: IntlLocale, NumberFormat: IntlNumberFormat,
    PluralRules: IntlPluralRules, RelativeTimeFormat: IntlRelativeTimeFormat, Segmenter: IntlSegmenter,
  };
  for (const name of Object.keys(services)) method(Intl, name, services[name]);
  defineProperty(Intl, Symbol.toStringTag, { __proto__: null, value: 'Intl', configurable: true });
  patch(make);
  return Intl;
}

// cached keeps the formatter of the last locale, where no options are given: loops format many values alike.
function cached(build) {
  let last;
  let lastLocale;
  return (locales, options) => {
    if (options !== undefined || (locales !== undefined && typeof locales !== 'string')) return build(locales, options);
    if (last === undefined || lastLocale !== locales) {
      last = build(locales, undefined);
      lastLocale = locales;
    }
    return last;
  };
}

function patch(make) {
  const number = cached((locales, options) => new IntlNumberFormat(locales, options));
  const collator = cached((locales, options) => new IntlCollator(locales, options));
  const define = (proto, name, length, fn) => {
    const methods = { [name](a, b, c) { return fn(this, a, b, c); } }; // a method is no constructor
    method(proto, name, methods[name]);
    defineProperty(methods[name], 'length', { __proto__: null, value: length, configurable: true });
  };

  define(Number.prototype, 'toLocaleString', 0, (self, locales, options) => number(locales, options).format(numberValueOf(self)));
  define(BigInt.prototype, 'toLocaleString', 0, (self, locales, options) => number(locales, options).format(bigintValueOf(self)));
  define(String.prototype, 'localeCompare', 1, (self, that, locales, options) => {
    if (self === undefined || self === null) {
      throw new TypeError('String.prototype.localeCompare called on null or undefined');
    }
    return collator(locales, options).compare(toStr(self), toStr(that));
  });

  for (const [name, change] of [['toLocaleLowerCase', lowerIn], ['toLocaleUpperCase', upperIn]]) {
    define(String.prototype, name, 0, (self, locales) => {
      if (self === undefined || self === null) throw new TypeError(`String.prototype.${name} called on null or undefined`);
      return change(toStr(self), locales === undefined ? '' : canonicalList(locales)[0] ?? '');
    });
  }

  for (const [name, need, add] of [
    ['toLocaleString', 'any', 'all'], ['toLocaleDateString', 'date', 'date'], ['toLocaleTimeString', 'time', 'time'],
  ]) {
    const formatter = cached((locales, options) => make(locales, options, need, add));
    define(Date.prototype, name, 0, (self, locales, options) => {
      const time = dateGetTime(self);
      return time !== time ? 'Invalid Date' : formatter(locales, options).format(time);
    });
  }

  const open = new NativeSet(); // a list inside itself would never end
  const elements = (self, length, locales, options) => {
    if (setHas(open, self)) return '';
    setAdd(open, self);
    try {
      const parts = [];
      for (let i = 0; i < length; i++) {
        const item = self[i];
        push(parts, item === undefined || item === null ? '' : toStr(item.toLocaleString(locales, options)));
      }
      return join(parts, ',');
    } finally {
      setDelete(open, self);
    }
  };
  define(Array.prototype, 'toLocaleString', 0, (self, locales, options) => elements(self, self.length, locales, options));
  define(getPrototypeOf(NativeUint8Array.prototype), 'toLocaleString', 0,
    (self, locales, options) => elements(self, typedArrayLength(self), locales, options)); // it throws for what is no typed array
}
