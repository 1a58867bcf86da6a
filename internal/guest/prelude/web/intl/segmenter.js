// Intl.Segmenter: graphemes by the rules of UAX #29 that matter in practice, words and sentences roughly. Words of
// languages written without spaces come out character by character.
import { push, regExpExec, toStr } from '../../intrinsics.js';
import { choice, resolve, service } from './locale.js';

const EXTEND = '[\\p{M}\\p{EMod}\\u200c\\ufe0e\\ufe0f\\u{e0020}-\\u{e007f}]*';
const SOURCES = {
  __proto__: null,
  grapheme: `\\r\\n|\\p{RI}\\p{RI}${EXTEND}|\\p{ExtPict}${EXTEND}(?:\\u200d\\p{ExtPict}${EXTEND})*\\u200d?|` +
    `[\\u1100-\\u115f]*[\\uac00-\\ud7a3][\\u1160-\\u11ff]*${EXTEND}|[\\u1100-\\u115f]+[\\u1160-\\u11ff]*${EXTEND}|` +
    `[^\\p{Cc}]${EXTEND}\\u200d?|[^]`,
  word: `\\r\\n|[\\p{Script=Han}\\p{Script=Hiragana}]|(?:[\\p{L}\\p{N}_\\p{M}]|(?<=\\p{L})['\\u2019.\\u00b7](?=\\p{L})|` +
    `(?<=\\p{N})[.,'](?=\\p{N}))+| +|\\p{RI}\\p{RI}|\\p{ExtPict}${EXTEND}(?:\\u200d\\p{ExtPict}${EXTEND})*|[^]${EXTEND}`,
  // A full stop ends no sentence before a letter or a digit, nor where the next word begins in lower case.
  sentence: '(?:[^.!?\\u3002\\uff01\\uff1f\\n]|\\.(?=[\\p{L}\\p{N}])|\\.(?=["\'\\u201d\\u2019)\\]]*\\s[^\\p{L}\\n.!?]*\\p{Ll}))*' +
    '(?:[.!?\\u3002\\uff01\\uff1f]+["\'\\u201d\\u2019)\\]]*[^\\S\\n]*\\n?|\\n|$)',
};
const compiled = { __proto__: null };

function all(text, granularity) {
  // Compiled when first used: the classes take memory that most programs never need.
  const re = (compiled[granularity] ??= new RegExp(SOURCES[granularity], 'gu'));
  re.lastIndex = 0;
  const out = [];
  for (let m; (m = regExpExec(re, text)) && m[0] !== ''; ) {
    const part = { segment: m[0], index: m.index, input: text };
    if (granularity === 'word') part.isWordLike = regExpExec(/[\p{L}\p{N}]/u, m[0]) !== null;
    push(out, part);
  }
  return out;
}

class Segments {
  #list;
  constructor(list) {
    this.#list = list;
  }

  containing(index = 0) {
    for (let i = 0; i < this.#list.length; i++) {
      const { segment, index: from } = this.#list[i];
      if (index >= from && index < from + segment.length) return this.#list[i];
    }
    return undefined;
  }

  *[Symbol.iterator]() {
    for (let i = 0; i < this.#list.length; i++) yield this.#list[i];
  }
}

class Segmenter {
  #locale;
  #granularity;

  constructor(locales, options) {
    this.#locale = resolve(locales, options);
    this.#granularity = choice(options, 'granularity', ['grapheme', 'word', 'sentence'], 'grapheme');
  }

  segment(text) {
    return new Segments(all(toStr(text), this.#granularity));
  }

  resolvedOptions() {
    return { locale: this.#locale.name, granularity: this.#granularity };
  }
}

export const IntlSegmenter = service(Segmenter, 'Segmenter', false);
