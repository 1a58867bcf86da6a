// URLSearchParams (URL Standard, section 6).
import { join, jsonParse, push, sort, startsWith, strSlice, symbolInspect, toStr, toWellFormed } from '../intrinsics.js';
import { library } from '../libraries.js';
import { replace } from '../text.js';
import { jsonOf, pairMethods, pairsOf } from './pairs.js';

export const usv = (value) => toWellFormed(toStr(value));

const parseQuery = (text) => (text === '' ? [] : jsonParse(library('parseQuery', text)));

// queryOf makes the URLSearchParams of a URL: changed is told its text after each change. replaceQuery gives it the
// query that the URL got meanwhile.
export let queryOf;
export let replaceQuery;

export class URLSearchParams {
  #list = [];
  #changed = null;

  static {
    queryOf = (text, changed) => {
      const params = new URLSearchParams();
      params.#list = parseQuery(text);
      params.#changed = changed;
      return params;
    };
    replaceQuery = (params, text) => {
      params.#list = parseQuery(text);
    };
    pairMethods(URLSearchParams, 'URLSearchParams', {
      read: (params) => params.#list,
      write: (params, list) => params.#edit(list),
      nameOf: usv,
      valueOf: usv,
      exact: true,
    });
  }

  constructor(init) {
    if (init === undefined || init === null) return;
    if (typeof init !== 'object' && typeof init !== 'function') {
      const text = usv(init);
      this.#list = parseQuery(startsWith(text, '?') ? strSlice(text, 1) : text);
      return;
    }
    // Names of an object that differ in lone surrogates alone are one.
    const add = typeof init[Symbol.iterator] === 'function'
      ? (name, value) => push(this.#list, [usv(name), usv(value)]) : (name, value) => this.set(name, value);
    pairsOf('URLSearchParams', init, add);
  }

  #edit(list) {
    this.#list = list;
    if (this.#changed) this.#changed(this.toString());
  }

  get size() { return this.#list.length; }

  sort() {
    sort(this.#list, (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    this.#edit(this.#list);
  }

  [symbolInspect](depth, options, inspect) {
    const pairs = [];
    for (let i = 0; i < this.#list.length; i++) push(pairs, `${inspect(this.#list[i][0])} => ${inspect(this.#list[i][1])}`);
    return pairs.length === 0 ? 'URLSearchParams {}' : `URLSearchParams { ${join(pairs, ', ')} }`;
  }

  // The host writes the value of a token as forms have it, with + for a space, where %5b and %5d are the token's brackets.
  toString() { return replace(/%5B((?:PII_)?[A-Z][A-Z0-9_]*_[1-9][0-9]{0,9})%5D/g, library('serializeQuery', jsonOf(this.#list)), (m) => `%5b${m[1]}%5d`); }
}
