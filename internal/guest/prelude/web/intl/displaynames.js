// Intl.DisplayNames, with names in English.
import { indexOf, join, push, split, strIndexOf, strSlice, toStr, toUpperCase } from '../../intrinsics.js';
import { replace, test } from '../../text.js';
import { canonicalList, choice, objectOf, resolve, service } from './locale.js';
import { NAMES } from './names.js';

const TYPES = ['language', 'region', 'script', 'currency', 'calendar', 'dateTimeField'];
const CODES = {
  __proto__: null, region: /^(?:[a-z]{2}|\d{3})$/i, script: /^[a-z]{4}$/i, currency: /^[a-z]{3}$/i, calendar: /^[a-z\d]{3,8}(?:-[a-z\d]{3,8})*$/i,
  dateTimeField: /^\w+$/,
};

// find is the name that a list has for a code, undefined if there is none.
function find(type, code) {
  const list = NAMES[type];
  const at = strIndexOf(list, `|${code}:`);
  if (at < 0) return undefined;
  const from = at + code.length + 2;
  return replace(/['~]/g, strSlice(list, from, strIndexOf(list, '|', from)), (m) => (m[0] === '~' ? '\u2013' : '\u2019'));
}

class DisplayNames {
  #locale;
  #type;
  #style;
  #fallback;
  #dialects;

  constructor(locales, options) {
    if (options === undefined) throw new TypeError('Intl.DisplayNames needs options with a type');
    objectOf(options);
    this.#locale = resolve(locales, options);
    this.#style = choice(options, 'style', ['narrow', 'short', 'long'], 'long');
    this.#type = choice(options, 'type', TYPES);
    if (this.#type === undefined) throw new TypeError('Intl.DisplayNames needs a type');
    this.#fallback = choice(options, 'fallback', ['code', 'none'], 'code');
    this.#dialects = choice(options, 'languageDisplay', ['dialect', 'standard'], 'dialect');
    if (this.#locale.name !== 'en' && this.#locale.name !== 'en-US') {
      throw new RangeError(`Intl here has DisplayNames in English only, not in '${this.#locale.name}': new Intl.DisplayNames('en', options)`);
    }
  }

  of(code) {
    code = toStr(code);
    if (this.#type === 'language') return this.#language(canonicalList(code)[0]);
    if (!test(CODES[this.#type], code) || (this.#type === 'dateTimeField' && find(this.#type, code) === undefined)) {
      throw new RangeError(`'${code}' is no code of a ${this.#type}`);
    }
    if (this.#type === 'currency') code = toUpperCase(code);
    return this.#name(this.#type, code) ?? (this.#fallback === 'code' ? code : undefined);
  }

  #name(type, code) {
    const shorter = this.#style !== 'long' && type !== 'currency' ? find('short', code) : undefined;
    return shorter ?? find(type, code);
  }

  #language(tag) {
    const parts = split(replace(/-[a-z\d]-.*$/g, tag, () => ''), '-');
    const whole = this.#dialects === 'dialect' || parts.length === 1 ? this.#name('language', join(parts, '-')) : undefined;
    if (whole !== undefined) return whole;
    const language = this.#name('language', parts[0]);
    if (language === undefined) return this.#fallback === 'code' ? tag : undefined;
    const details = [];
    for (let i = 1; i < parts.length; i++) {
      const type = parts[i].length === 4 ? 'script' : 'region';
      if (!test(CODES[type], parts[i])) throw new RangeError(`Intl here has no names of variants, such as '${parts[i]}' (of '${tag}')`);
      push(details, this.#name(type, parts[i]) ?? parts[i]);
    }
    return `${language} (${join(details, ', ')})`;
  }

  resolvedOptions() {
    const out = { locale: this.#locale.name, style: this.#style, type: this.#type, fallback: this.#fallback };
    if (indexOf(TYPES, this.#type) === 0) out.languageDisplay = this.#dialects;
    return out;
  }
}

export const IntlDisplayNames = service(DisplayNames, 'DisplayNames', false);
