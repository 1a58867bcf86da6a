// Intl.Locale, and the values that Intl.supportedValuesOf lists.
import { indexOf, join, keys, regExpExec, sort, split, startsWith, strSlice, toLowerCase, toStr } from '../../intrinsics.js';
import { replace, test } from '../../text.js';
import { tag as tagClass } from '../shapes.js';
import { canonicalList, choice, NUMBERINGS } from './locale.js';
import { LOCALES } from './locales.js';
import { CURRENCIES } from './names.js';

// The script of a language's first locale, where it is not Latn.
const SCRIPTS = { __proto__: null, zh: 'Hans', ja: 'Jpan', ko: 'Kore', ru: 'Cyrl', uk: 'Cyrl', el: 'Grek' };
const KEYS = { __proto__: null, calendar: 'ca', collation: 'co', hourCycle: 'hc', caseFirst: 'kf', numeric: 'kn', numberingSystem: 'nu' };
const PARTS = { __proto__: null, language: /^(?:[a-z]{2,3}|[a-z]{5,8})$/i, script: /^[a-z]{4}$/i, region: /^(?:[a-z]{2}|\d{3})$/i };

class Locale {
  #parts = { __proto__: null, language: '', script: undefined, region: undefined, rest: '' };
  #words = { __proto__: null }; // the keywords, by their keys of two letters
  #others = ''; // other extensions, and private use

  constructor(tag, options) {
    if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) {
      throw new TypeError("First argument to Intl.Locale constructor can't be empty or missing");
    }
    this.#read(canonicalList(toStr(tag))[0]);
    for (const name in PARTS) {
      const value = options?.[name] === undefined ? undefined : toStr(options[name]);
      if (value === undefined) continue;
      if (!test(PARTS[name], value)) throw new RangeError('Incorrect locale information provided');
      this.#parts[name] = value;
    }
    this.#read(canonicalList(this.toString())[0]);
    for (const name in KEYS) {
      const allowed = name === 'hourCycle' ? ['h11', 'h12', 'h23', 'h24'] : name === 'caseFirst' ? ['upper', 'lower', 'false'] : undefined;
      const value = choice(options, name, allowed);
      if (value === undefined) continue;
      if (!test(/^(?:[a-z\d]{3,8}(?:-[a-z\d]{3,8})*|true|false)$/i, value)) throw new RangeError('Incorrect locale information provided');
      this.#words[KEYS[name]] = name === 'numeric' && value === 'true' ? '' : toLowerCase(value);
    }
  }

  #read(tag) {
    this.#words = { __proto__: null };
    const unicode = replace(/^.*?-u(?=-)/g, tag, () => '');
    const extension = regExpExec(/-[a-z\d]-.*$/, tag);
    this.#others = extension ? replace(/-u(?:-[a-z\d]{2,8})+/g, extension[0], () => '') : '';
    if (unicode !== tag) {
      const words = split(strSlice(replace(/-[a-tv-z\d]-.*$/g, unicode, () => ''), 1), '-');
      let key;
      for (let i = 0; i < words.length; i++) {
        if (words[i].length === 2) this.#words[key = words[i]] ??= '';
        else if (key !== undefined) this.#words[key] += `${this.#words[key] === '' ? '' : '-'}${words[i]}`;
      }
      for (const name in this.#words) if (this.#words[name] === 'true') this.#words[name] = '';
    }
    const parts = split(replace(/-[a-z\d]-.*$/g, tag, () => ''), '-');
    const found = this.#parts;
    found.language = parts[0];
    found.script = found.region = undefined;
    found.rest = '';
    for (let i = 1; i < parts.length; i++) {
      if (found.rest === '' && found.region === undefined && found.script === undefined && test(PARTS.script, parts[i])) found.script = parts[i];
      else if (found.rest === '' && found.region === undefined && test(PARTS.region, parts[i])) found.region = parts[i];
      else found.rest += `-${parts[i]}`;
    }
  }

  get language() { return this.#parts.language; }
  get script() { return this.#parts.script; }
  get region() { return this.#parts.region; }

  get baseName() {
    const { language, script, region, rest } = this.#parts;
    return `${language}${script === undefined ? '' : `-${script}`}${region === undefined ? '' : `-${region}`}${rest}`;
  }

  get calendar() { return this.#words.ca; }
  get collation() { return this.#words.co; }
  get hourCycle() { return this.#words.hc; }
  get caseFirst() { return this.#words.kf; }
  get numeric() { return this.#words.kn === ''; }
  get numberingSystem() { return this.#words.nu; }
  get textInfo() { return { direction: test(/^(?:ar|ckb|dv|fa|he|ks|ku-Arab|ps|sd|syr|ug|ur|yi)(?:-|$)/, this.baseName) ? 'rtl' : 'ltr' }; }

  toString() {
    const names = keys(this.#words);
    sort(names);
    let text = this.baseName;
    for (let i = 0; i < names.length; i++) text += `${i === 0 ? '-u' : ''}-${names[i]}${this.#words[names[i]] === '' ? '' : `-${this.#words[names[i]]}`}`;
    return text + this.#others;
  }

  maximize() {
    const { language, script, region } = this.#parts;
    const names = keys(LOCALES);
    for (let i = 0; i < names.length; i++) {
      if (!startsWith(names[i], `${language}-`)) continue;
      const traditional = language === 'zh' && (script === 'Hant' || (script === undefined && indexOf(['TW', 'HK', 'MO'], region) >= 0));
      return new IntlLocale(this.toString(), {
        script: script ?? (traditional ? 'Hant' : SCRIPTS[language] ?? 'Latn'), region: region ?? (traditional ? 'TW' : split(names[i], '-')[1]),
      });
    }
    throw new RangeError(`Intl here does not know the likely script and region of '${this.baseName}'`);
  }

  minimize() {
    const { language, script, region, rest } = this.maximize().#parts;
    const extension = strSlice(this.toString(), this.baseName.length);
    const tries = [language, `${language}-${region}`, `${language}-${script}`];
    for (let i = 0; i < tries.length; i++) {
      const most = new IntlLocale(tries[i]).maximize().#parts;
      if (most.script === script && most.region === region) return new IntlLocale(tries[i] + rest + extension);
    }
    return new IntlLocale(`${language}-${script}-${region}${rest}${extension}`);
  }
}
tagClass(Locale, 'Locale', 'Intl.Locale');
export const IntlLocale = Locale;

// supportedValuesOf is Intl.supportedValuesOf: what there is here.
export function supportedValuesOf(key) {
  key = toStr(key);
  switch (key) {
    case 'calendar': return ['buddhist', 'gregory', 'iso8601'];
    case 'collation': return ['emoji', 'eor'];
    case 'currency': return split(CURRENCIES, '|');
    case 'numberingSystem': return sort(NUMBERINGS());
    case 'unit': {
      const units = split(LOCALES['en-US'].unit, '|');
      for (let i = 0; i < units.length; i++) units[i] = split(units[i], '!')[0];
      return units;
    }
    case 'timeZone':
      throw new RangeError("Intl here has no list of time zones, but every zone of IANA: new Intl.DateTimeFormat('en', { timeZone: 'Europe/Berlin' })");
    default: throw new RangeError(`Invalid key : ${key}`);
  }
}
