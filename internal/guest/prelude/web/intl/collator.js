// Intl.Collator: the root collation for Latin text: punctuation, digits, letters; accents and case only break ties. Other
// scripts follow by code point. Some languages have letters of their own; where the rules of their script are more, text in it is
// an error.
import {
  charCodeAt, codePointAt, fromCodePoint, mapGet, mapSet, mapSize, NativeMap, normalize, push, regExpExec, strIndexOf, strSlice,
  toLowerCase, toNumber, toStr,
} from '../../intrinsics.js';
import { replace, test } from '../../text.js';
import { choice, plain, resolve, service } from './locale.js';

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

// The letters that come after another, by language, in groups that the other one begins. Scripts that come before the Latin one follow 9.
// Private use characters from DIGRAPH on stand for the language's DIGRAPHS.
const CYRILLIC = '9\u0430\u0431\u0432\u0433\u0491\u0434\u0435\u0454\u0436\u0437\u0438\u0456\u0457\u0439\u043a\u043b\u043c\u043d\u043e' +
  '\u043f\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044a\u044b\u044c\u044d\u044e\u044f';
const OWN = {
  __proto__: null, cs: 'c\u010d h\uf000 r\u0159 s\u0161 z\u017e', da: 'z\u00e6\u00f8\u00e5',
  el: '9\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be\u03bf\u03c0\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9',
  es: 'n\u00f1', fi: 'z\u00e5\u00e4\u00f6', hr: 'c\u010d\u0107 d\uf000\u0111 l\uf001 n\uf002 s\u0161 z\u017e',
  hu: 'c\uf001 d\uf002\uf000 g\uf003 l\uf004 n\uf005 o\u00f6 s\uf006 t\uf007 u\u00fc z\uf008', nb: 'z\u00e6\u00f8\u00e5',
  pl: 'a\u0105 c\u0107 e\u0119 l\u0142 n\u0144 o\u00f3 s\u015b z\u017a\u017c', ro: 'a\u0103\u00e2 i\u00ee s\u0219 t\u021b', ru: CYRILLIC,
  sk: 'a\u00e4 c\u010d h\uf000 o\u00f4 r\u0159 s\u0161 z\u017e', sv: 'z\u00e5\u00e4\u00f6', tr: 'c\u00e7 g\u011f h\u0131 o\u00f6 s\u015f u\u00fc', uk: CYRILLIC,
};
const DIGRAPHS = {
  __proto__: null, cs: ['ch'], da: ['aa'], hr: ['d\u017e', 'lj', 'nj'], hu: ['dzs', 'cs', 'dz', 'gy', 'ly', 'ny', 'sz', 'ty', 'zs'], nb: ['aa'], sk: ['ch'],
};
const DIGRAPH = 0xf000;
// Letters that differ from one of these in their accent alone.
const ALIASES = {
  __proto__: null, da: '\u00e4\u00e6 \u00f6\u00f8 \uf000\u00e5', el: '\u03c2\u03c3', fi: '\u00e6\u00e4 \u00f8\u00f6', hu: '\u0151\u00f6 \u0171\u00fc',
  nb: '\u00e4\u00e6 \u00f6\u00f8 \uf000\u00e5', ro: '\u015f\u0219 \u0163\u021b', sv: '\u00e6\u00e4 \u00f8\u00f6',
};
const ALIKE = '\u0338'; // the mark of an alias
// The order of their own script's letters is not here.
const REFUSED = ' ja ko zh ';
const FOREIGN = /[^\p{Script=Latin}\p{Script=Common}\p{Script=Inherited}]/u;
const PLACE = 0xe000; // private use characters stand for a language's own letters, from 0xe100 on in upper case

// letters replaces a language's own letters in a text.
function letters(text, own, digraphs, aliases, dotless) {
  let out = '';
  for (let i = 0; i < text.length; i++) {
    let low = dotless && text[i] === 'I' ? '\u0131' : toLowerCase(text[i]);
    let length = 1;
    for (let k = 0; k < digraphs.length && length === 1; k++) {
      if (toLowerCase(strSlice(text, i, i + digraphs[k].length)) !== digraphs[k]) continue;
      low = fromCodePoint(DIGRAPH + k);
      length = digraphs[k].length;
    }
    const alias = strIndexOf(aliases, low);
    const found = alias < 0 || low === ' ' || alias % 3 > 0 ? low : aliases[alias + 1];
    const at = strIndexOf(own, found);
    if (at < 1 || found === ' ' || own[at - 1] === ' ') out += text[i];
    else {
      out += fromCodePoint(PLACE + at + (toLowerCase(text[i]) === text[i] ? 0 : 0x100)) + (found === low ? '' : ALIKE);
      i += length - 1;
    }
  }
  return out;
}

// decompose is normalization form KD, but for the letters of a language.
function decompose(text, o) {
  const composed = normalize(text, 'NFC');
  if (o.own === undefined) return cyrillic(normalize(composed, 'NFKD'));
  const apart = cyrillic(normalize(letters(composed, o.own, o.digraphs, o.aliases, o.own === OWN.tr), 'NFKD'));
  return letters(apart, o.own, [], o.aliases, false); // such as come out of others
}

// The Cyrillic short i is a letter.
const cyrillic = (text) => replace(/([\u0438\u0418])\u0306/g, text, (m) => (m[1] === '\u0438' ? '\u0439' : '\u0419'));

// placeOf is the weight of a language's own letter: after the one that begins its group.
function placeOf(own, at) {
  let head = at;
  while (head > 0 && own[head - 1] !== ' ') head--;
  const first = primary[charCodeAt(own, head)];
  return (first > DIGITS + 9 ? first + 1 : first) + (own[head] === '9' ? 0.5 : 0) + (at - head) / 128;
}

// keys makes the weights of a text: primary, secondary (accents) and tertiary (case) ones.
function keys(text, o) {
  const first = [];
  const second = [];
  const third = [];
  const chars = decompose(text, o);
  for (let i = 0; i < chars.length; i++) {
    const code = codePointAt(chars, i);
    if (code > 0xffff) i++;
    const c = fromCodePoint(code);
    const low = toLowerCase(c);
    if (test(/\p{M}/u, c)) {
      if (second.length > 0) second[second.length - 1] += mark(c, code);
      continue;
    }
    if (o.own !== undefined && code >= PLACE && code < PLACE + 0x200) {
      push(first, placeOf(o.own, code & 0xff));
      push(second, 0);
      push(third, code >= PLACE + 0x100 ? 1 : 0);
      continue;
    }
    const base = SPECIAL[low] ?? low;
    for (let k = 0; k < base.length; k++) {
      const b = charCodeAt(base, k);
      let weight = b < 128 ? primary[b] : strIndexOf(ORDER, base[k]) + 1;
      if (b >= 128 && weight === 0) weight = other(low);
      if (weight === 0 || (o.ignorePunctuation && weight < PUNCTUATION)) continue;
      if (o.numeric && weight >= DIGITS && weight < DIGITS + 10) {
        const run = regExpExec(/^\d+/, strSlice(chars, i))[0];
        push(first, DIGITS + 10, toNumber(run)); // letters come after all numbers
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
  if (o.refused && (test(FOREIGN, x) || test(FOREIGN, y))) {
    throw new RangeError(`Intl here does not know the order of letters in '${o.refused}': compare without a locale, or by keys of your own`);
  }
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
  #rules; // its options and what the language adds
  #simple; // the default rules, for which there is a short way
  #known = new NativeMap(); // text -> its keys
  #bound;

  constructor(locales, options) {
    this.#locale = resolve(locales, options);
    const o = (this.#o = {
      usage: choice(options, 'usage', ['sort', 'search'], 'sort'),
      sensitivity: choice(options, 'sensitivity', ['base', 'accent', 'case', 'variant'], 'variant'),
      ignorePunctuation: Boolean(options?.ignorePunctuation),
      collation: 'default',
      numeric: options?.numeric === undefined ? this.#locale.kn ?? false : Boolean(options.numeric),
      caseFirst: choice(options, 'caseFirst', ['upper', 'lower', 'false'], this.#locale.kf || (this.#locale.language === 'da' ? 'upper' : 'false')),
    });
    const { language, name } = this.#locale;
    const digraphs = DIGRAPHS[language] ?? [];
    this.#rules = { ...o, own: OWN[language], digraphs, aliases: ALIASES[language] ?? '', refused: strIndexOf(REFUSED, ` ${language} `) >= 0 ? name : '' };
    plain('collation', options, 'default');
    this.#simple = o.sensitivity === 'variant' && !o.numeric && !o.ignorePunctuation && o.caseFirst !== 'upper' &&
      digraphs.length === 0 && language !== 'tr';
  }

  get compare() {
    const keysOf = (text) => this.#keys(text);
    return (this.#bound ??= (a, b) => compareWith(toStr(a), toStr(b), this.#rules, this.#simple, keysOf));
  }

  // #keys remembers keys: sorting compares each text a dozen times.
  #keys(text) {
    let found = mapGet(this.#known, text);
    if (found === undefined) {
      if (mapSize(this.#known) >= REMEMBERED) this.#known = new NativeMap();
      found = keys(text, this.#rules);
      mapSet(this.#known, text, found);
    }
    return found;
  }

  resolvedOptions() {
    return { locale: this.#locale.name, ...this.#o };
  }
}

export const IntlCollator = service(Collator, 'Collator', true);
