// Intl.Collator: the root collation for Latin text: punctuation, digits, letters; accents and case only break ties. Other
// scripts follow by code point. No locale has rules of its own.
import {
  charCodeAt, codePointAt, exec, fromCodePoint, lower, mapGet, mapSet, mapSize, normalize, num, push, SafeMap, slice, str,
  strIndexOf, test,
} from '../intrinsics.js';
import { choice, resolve, service } from './locale.js';

// Every character below the letters in order; spaces are all alike, controls are ignored.
const ORDER = ' _-\u2013\u2014,;:!\u00a1?\u00bf.\u2026\'\u2018\u2019"\u201c\u201d\u00ab\u00bb()[]{}\u00a7@*/\\&#%' +
  '\u2020\u2021\u2022`\u00b4^\u00b0\u00a9\u00ae+\u00b1\u00f7\u00d7<=>|~\u00a2$\u00a3\u00a5\u20ac0123456789abcdefghijklmnopqrstuvwxyz';
const PUNCTUATION = strIndexOf(ORDER, '`') + 1; // weights below are what ignorePunctuation ignores
const DIGITS = strIndexOf(ORDER, '0') + 1;
const LETTERS = 0x200; // weights of letters that are not ASCII

// Accents in the order in which they break ties.
const MARKS = '\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0338\u0327\u0328\u0304';
const STROKE = strIndexOf(MARKS, '\u0338') + 1;
const mark = (c, code) => strIndexOf(MARKS, c) + 1 || MARKS.length + code;

const primary = new Uint8Array(128); // of ASCII; 0 is ignored
for (let i = 1; i < 128; i++) primary[i] = ORDER.indexOf(String.fromCharCode(i).toLowerCase()) + 1;
primary[9] = primary[10] = primary[11] = primary[12] = primary[13] = 1;

// Letters that decomposition leaves whole: base letters and a secondary weight.
const SPECIAL = {
  __proto__: null, '\u00df': 'ss', '\u00e6': 'ae', '\u0153': 'oe', '\u00f8': 'o', '\u0142': 'l', '\u0111': 'd',
  '\u00f0': 'd', '\u0131': 'i',
};

const isUpper = (c) => c >= 65 && c <= 90;

// ascii compares two ASCII texts by the default rules, without making keys; undefined where that takes keys.
function ascii(a, b) {
  const n = a.length < b.length ? a.length : b.length;
  let tie = 0;
  for (let i = 0; i < n; i++) {
    const x = charCodeAt(a, i);
    const y = charCodeAt(b, i);
    const p = primary[x]; // undefined past ASCII
    if (!p) return undefined;
    if (x === y) continue;
    const q = primary[y];
    if (!q) return undefined;
    if (p !== q) return p < q ? -1 : 1;
    if (tie === 0) tie = isUpper(y) ? -1 : 1;
  }
  if (a.length === b.length) return tie;
  if (!primary[charCodeAt(a.length < b.length ? b : a, n)]) return undefined;
  return a.length < b.length ? -1 : 1;
}

// other weighs a character that ORDER lacks: letters and numbers after all it has, anything else just before its digits.
function other(c) {
  const code = codePointAt(c, 0);
  return test(/[\p{L}\p{N}]/u, c) ? LETTERS + code : DIGITS - 0.5 + code / 0x400000;
}

// keys makes the weights of a text: primary, secondary (accents) and tertiary (case) ones.
function keys(text, o) {
  const first = [];
  const second = [];
  const third = [];
  const chars = normalize(text, 'NFKD');
  for (let i = 0; i < chars.length; i++) {
    const code = codePointAt(chars, i);
    if (code > 0xffff) i++;
    const c = fromCodePoint(code);
    const low = lower(c);
    if (test(/\p{M}/u, c)) {
      if (second.length > 0) second[second.length - 1] += mark(c, code);
      continue;
    }
    const base = SPECIAL[low] ?? low;
    for (let k = 0; k < base.length; k++) {
      const b = charCodeAt(base, k);
      let weight = b < 128 ? primary[b] : strIndexOf(ORDER, base[k]) + 1;
      if (b >= 128 && weight === 0) weight = other(low);
      if (weight === 0 || (o.ignorePunctuation && weight < PUNCTUATION)) continue;
      if (o.numeric && weight >= DIGITS && weight < DIGITS + 10) {
        const run = exec(/^\d+/, slice(chars, i))[0];
        push(first, DIGITS + 10, num(run)); // letters come after all numbers
        push(second, 0, 0);
        push(third, 0, 0);
        i += run.length - 1;
        break;
      }
      push(first, weight > DIGITS + 9 ? weight + 1 : weight);
      push(second, base === low ? 0 : STROKE);
      push(third, c !== low ? 1 : 0);
      if (b >= 128) break; // a pair of surrogates is one weight
    }
  }
  return { first, second, third };
}

function order(a, b) {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return a.length < b.length ? -1 : a.length > b.length ? 1 : 0;
}

// compareWith compares by the options of a Collator.
function compareWith(x, y, o, simple, keysOf) {
  if (x === y) return 0;
  if (simple) {
    const quick = ascii(x, y);
    if (quick !== undefined) return quick;
  }
  const a = keysOf(x);
  const b = keysOf(y);
  let result = order(a.first, b.first);
  if (result === 0 && (o.sensitivity === 'accent' || o.sensitivity === 'variant')) result = order(a.second, b.second);
  if (result === 0 && (o.sensitivity === 'case' || o.sensitivity === 'variant')) {
    result = order(a.third, b.third);
    if (o.caseFirst === 'upper') result = -result;
  }
  return result || 0; // not -0
}

const REMEMBERED = 5000; // texts

class Collator {
  #locale;
  #o;
  #simple; // the default rules, for which there is a short way
  #known = new SafeMap(); // text -> its keys
  #bound;

  constructor(locales, options) {
    this.#locale = resolve(locales, options);
    const o = (this.#o = {
      usage: choice(options, 'usage', ['sort', 'search'], 'sort'),
      sensitivity: choice(options, 'sensitivity', ['base', 'accent', 'case', 'variant'], 'variant'),
      ignorePunctuation: Boolean(options?.ignorePunctuation),
      collation: 'default',
      numeric: Boolean(options?.numeric),
      caseFirst: choice(options, 'caseFirst', ['upper', 'lower', 'false'], 'false'),
    });
    this.#simple = o.sensitivity === 'variant' && !o.numeric && !o.ignorePunctuation && o.caseFirst !== 'upper';
  }

  get compare() {
    const keysOf = (text) => this.#keys(text);
    return (this.#bound ??= (a, b) => compareWith(str(a), str(b), this.#o, this.#simple, keysOf));
  }

  // #keys remembers keys: sorting compares each text a dozen times.
  #keys(text) {
    let found = mapGet(this.#known, text);
    if (found === undefined) {
      if (mapSize(this.#known) >= REMEMBERED) this.#known = new SafeMap();
      found = keys(text, this.#o);
      mapSet(this.#known, text, found);
    }
    return found;
  }

  resolvedOptions() {
    return { locale: this.#locale.name, ...this.#o };
  }
}

export const IntlCollator = service(Collator, 'Collator', false, true);
