// Intl.PluralRules, Intl.RelativeTimeFormat and Intl.ListFormat. The latter two speak English only.
import { abs, endsWith, num, push, slice, str } from '../intrinsics.js';
import { choice, resolve, service } from './locale.js';
import { IntlNumberFormat } from './number.js';
import { cardinal, ordinal } from './plural.js';

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
    const parts = this.#format.formatToParts(abs(num(value)));
    if (parts[0].type !== 'integer') return 'other'; // NaN and infinity
    const fraction = parts.length > 1 ? parts[2].value : '';
    if (this.#type === 'cardinal') return cardinal(this.#locale.language, parts[0].value, fraction);
    return this.#locale.language === 'en' ? ordinal(parts[0].value, fraction) : 'other';
  }

  resolvedOptions() {
    const { language, name } = this.#locale;
    const out = { locale: name, type: this.#type };
    const digits = this.#format.resolvedOptions();
    for (let i = 0; i < DIGITS.length; i++) if (digits[DIGITS[i]] !== undefined) out[DIGITS[i]] = digits[DIGITS[i]];
    let has = ['other'];
    if (this.#type === 'ordinal') has = language === 'en' ? ['few', 'one', 'two', 'other'] : has;
    else if (cardinal(language, '1000000', '') === 'many') has = ['many', 'one', 'other'];
    else if (cardinal(language, '1', '') === 'one') has = ['one', 'other'];
    out.pluralCategories = has;
    return out;
  }
}

const DIGITS = ['minimumIntegerDigits', 'minimumFractionDigits', 'maximumFractionDigits', 'minimumSignificantDigits',
  'maximumSignificantDigits'];

// unit: short for one, short for many, narrow, word in "last mo."
const UNITS = {
  __proto__: null, second: ['sec.', 'sec.', 's'], minute: ['min.', 'min.', 'm'], hour: ['hr.', 'hr.', 'h'],
  day: ['day', 'days', 'd'], week: ['wk.', 'wk.', 'w'], month: ['mo.', 'mo.', 'mo'], quarter: ['qtr.', 'qtrs.', 'q'],
  year: ['yr.', 'yr.', 'y'],
};

class RelativeTimeFormat {
  #locale;
  #style;
  #numeric;
  #number;

  constructor(locales, options) {
    this.#locale = resolve(locales, options, true);
    this.#style = choice(options, 'style', ['long', 'short', 'narrow'], 'long');
    this.#numeric = choice(options, 'numeric', ['always', 'auto'], 'always');
    this.#number = new IntlNumberFormat(this.#locale.name);
  }

  formatToParts(value, unit) {
    let name = str(unit);
    if (UNITS[name] === undefined && endsWith(name, 's')) name = slice(name, 0, -1);
    const forms = UNITS[name];
    if (forms === undefined) throw new RangeError(`Invalid unit argument for format() '${str(unit)}'`);
    const n = num(value);
    if (!(n > -Infinity && n < Infinity)) throw new RangeError('Invalid time value');
    const past = n < 0 || (n === 0 && 1 / n < 0);
    if (this.#numeric === 'auto' && (n === 0 || n === 1 || n === -1)) {
      const word = this.#word(name, n);
      if (word !== undefined) return [{ type: 'literal', value: word }];
    }
    const parts = this.#number.formatToParts(abs(n));
    for (let i = 0; i < parts.length; i++) parts[i].unit = name;
    const one = parts.length === 1 && parts[0].value === '1';
    let text = ` ${name}${one ? '' : 's'}`;
    if (this.#style === 'short') text = ` ${forms[one ? 0 : 1]}`;
    else if (this.#style === 'narrow') text = forms[2];
    const out = past ? [] : [{ type: 'literal', value: 'in ' }];
    for (let i = 0; i < parts.length; i++) push(out, parts[i]);
    push(out, { type: 'literal', value: past ? `${text} ago` : text });
    return out;
  }

  #word(unit, n) {
    if (unit === 'day') return n === 0 ? 'today' : n > 0 ? 'tomorrow' : 'yesterday';
    if (unit === 'second') return n === 0 ? 'now' : undefined;
    if (unit === 'minute' || unit === 'hour') return n === 0 ? `this ${unit}` : undefined;
    return `${n === 0 ? 'this' : n > 0 ? 'next' : 'last'} ${this.#style === 'long' ? unit : UNITS[unit][0]}`;
  }

  format(value, unit) {
    return textOf(this.formatToParts(value, unit));
  }

  resolvedOptions() {
    return { locale: this.#locale.name, style: this.#style, numeric: this.#numeric, numberingSystem: 'latn' };
  }
}

function textOf(parts) {
  let out = '';
  for (let i = 0; i < parts.length; i++) out += parts[i].value;
  return out;
}

class ListFormat {
  #locale;
  #type;
  #style;

  constructor(locales, options) {
    this.#locale = resolve(locales, options, true);
    this.#type = choice(options, 'type', ['conjunction', 'disjunction', 'unit'], 'conjunction');
    this.#style = choice(options, 'style', ['long', 'short', 'narrow'], 'long');
  }

  formatToParts(list = []) {
    const items = [];
    for (const item of list) {
      if (typeof item !== 'string') throw new TypeError('Iterable yielded a non-String value');
      push(items, item);
    }
    let word = this.#type === 'disjunction' ? 'or' : '';
    if (this.#type === 'conjunction') word = { __proto__: null, long: 'and', short: '&', narrow: '' }[this.#style];
    const comma = this.#type === 'unit' && this.#style === 'narrow' ? ' ' : ', ';
    const out = [];
    for (let i = 0; i < items.length; i++) {
      if (i > 0) {
        const last = i === items.length - 1 && word !== '';
        push(out, { type: 'literal', value: last ? `${items.length > 2 ? ',' : ''} ${word} ` : comma });
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

export const IntlPluralRules = service(PluralRules, 'PluralRules', false, false);
export const IntlRelativeTimeFormat = service(RelativeTimeFormat, 'RelativeTimeFormat', true, false);
export const IntlListFormat = service(ListFormat, 'ListFormat', true, false);
