// Intl.PluralRules, Intl.RelativeTimeFormat and Intl.ListFormat.
import { abs, endsWith, indexOf, is, push, split, strIndexOf, strSlice, toNumber, toStr } from '../../intrinsics.js';
import { test } from '../../text.js';
import { absent, choice, resolve, service } from './locale.js';
import { IntlNumberFormat } from './number.js';
import { categoriesOf, categoryOf, form } from './plural.js';

const STYLES = ['long', 'short', 'narrow'];

class PluralRules {
  #locale;
  #type;
  #format;

  constructor(locales, options) {
    this.#locale = resolve(locales, options);
    this.#type = choice(options, 'type', ['cardinal', 'ordinal'], 'cardinal');
    const digits = { __proto__: null, useGrouping: false };
    for (let i = 0; i < DIGITS.length; i++) digits[DIGITS[i]] = options?.[DIGITS[i]];
    this.#format = new IntlNumberFormat('en-US', digits);
  }

  select(value) {
    const parts = this.#format.formatToParts(abs(toNumber(value)));
    if (parts[0].type !== 'integer') return 'other'; // NaN and infinity
    const fraction = parts.length > 1 ? parts[2].value : '';
    return categoryOf(this.#locale, parts[0].value, fraction, this.#type === 'ordinal');
  }

  selectRange() { return absent('Intl.PluralRules.prototype.selectRange'); }

  resolvedOptions() {
    const out = { locale: this.#locale.name, type: this.#type };
    const digits = this.#format.resolvedOptions();
    for (let i = 0; i < DIGITS.length; i++) if (digits[DIGITS[i]] !== undefined) out[DIGITS[i]] = digits[DIGITS[i]];
    out.pluralCategories = categoriesOf(this.#locale, this.#type === 'ordinal');
    return out;
  }
}

const DIGITS = ['minimumIntegerDigits', 'minimumFractionDigits', 'maximumFractionDigits', 'minimumSignificantDigits',
  'maximumSignificantDigits'];

const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'];

class RelativeTimeFormat {
  #locale;
  #style;
  #numeric;
  #number;

  constructor(locales, options) {
    this.#locale = resolve(locales, options);
    this.#style = choice(options, 'style', STYLES, 'long');
    this.#numeric = choice(options, 'numeric', ['always', 'auto'], 'always');
    this.#number = new IntlNumberFormat(this.#locale.name, { __proto__: null, numberingSystem: this.#locale.nu });
  }

  formatToParts(value, unit) {
    let name = toStr(unit);
    if (indexOf(UNITS, name) < 0 && endsWith(name, 's')) name = strSlice(name, 0, -1);
    const at = indexOf(UNITS, name);
    if (at < 0) throw new RangeError(`Invalid unit argument for format() '${toStr(unit)}'`);
    const n = toNumber(value);
    if (!(n > -Infinity && n < Infinity)) throw new RangeError('Invalid time value');
    const entry = split(this.#locale.list('relative')[at * STYLES.length + indexOf(STYLES, this.#style)], '!');
    if (this.#numeric === 'auto') {
      for (let i = 2; i < entry.length; i++) {
        const equals = strIndexOf(entry[i], '=');
        if (toNumber(strSlice(entry[i], 0, equals)) === n) return [{ type: 'literal', value: strSlice(entry[i], equals + 1) }];
      }
    }
    const parts = this.#number.formatToParts(abs(n));
    let integer = '';
    let fraction = '';
    for (let i = 0; i < parts.length; i++) {
      if (parts[i].type === 'integer') integer += parts[i].value;
      if (parts[i].type === 'fraction') fraction = parts[i].value;
      parts[i].unit = name;
    }
    const pattern = form(split(entry[n < 0 || is(n, -0) ? 0 : 1], '~'), categoryOf(this.#locale, integer, fraction));
    const hole = strIndexOf(pattern, '{');
    const out = [];
    if (hole < 0) return [{ type: 'literal', value: pattern }];
    if (hole > 0) push(out, { type: 'literal', value: strSlice(pattern, 0, hole) });
    for (let i = 0; i < parts.length; i++) push(out, parts[i]);
    if (hole < pattern.length - 1) push(out, { type: 'literal', value: strSlice(pattern, hole + 1) });
    return out;
  }

  format(value, unit) {
    return textOf(this.formatToParts(value, unit));
  }

  resolvedOptions() {
    return { locale: this.#locale.name, style: this.#style, numeric: this.#numeric, numberingSystem: this.#locale.nu ?? 'latn' };
  }
}

function textOf(parts) {
  let out = '';
  for (let i = 0; i < parts.length; i++) out += parts[i].value;
  return out;
}

const TYPES = ['conjunction', 'disjunction', 'unit'];

// spanish changes y and o before words that begin with their sound.
function spanish(locale, text, next) {
  if (locale.language !== 'es') return text;
  if (text === ' y ' && test(/^h?i(?!e|a)/i, next)) return ' e ';
  return text === ' o ' && test(/^(?:h?o|8|11(?: |$))/i, next) ? ' u ' : text;
}

class ListFormat {
  #locale;
  #type;
  #style;

  constructor(locales, options) {
    this.#locale = resolve(locales, options);
    this.#type = choice(options, 'type', TYPES, 'conjunction');
    this.#style = choice(options, 'style', STYLES, 'long');
  }

  formatToParts(list = []) {
    const items = [];
    for (const item of list) {
      if (typeof item !== 'string') throw new TypeError('Iterable yielded a non-String value');
      push(items, item);
    }
    const at = indexOf(TYPES, this.#type) * STYLES.length + indexOf(STYLES, this.#style);
    const between = split(this.#locale.list('list')[at], '~');
    const out = [];
    for (let i = 0; i < items.length; i++) {
      if (i > 0) {
        const last = i === items.length - 1;
        const text = spanish(this.#locale, items.length === 2 ? between[0] : between[last ? 2 : 1], items[i]);
        if (text !== '') push(out, { type: 'literal', value: text });
      }
      push(out, { type: 'element', value: items[i] });
    }
    return out;
  }

  format(list) {
    return textOf(this.formatToParts(list));
  }

  resolvedOptions() {
    return { locale: this.#locale.name, type: this.#type, style: this.#style };
  }
}

export const IntlPluralRules = service(PluralRules, 'PluralRules', false);
export const IntlRelativeTimeFormat = service(RelativeTimeFormat, 'RelativeTimeFormat', false);
export const IntlListFormat = service(ListFormat, 'ListFormat', false);
