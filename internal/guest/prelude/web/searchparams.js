// URLSearchParams (URL Standard, section 6).
import { library } from '../libraries.js';
import {
  apply, INSPECT, jsonParse, jsonStringify, join, keys, push, slice, sort, startsWith, str, tag, tagIterator, toWellFormed,
} from './intrinsics.js';

export const usv = (value) => toWellFormed(str(value));

function parseQuery(text) {
  const list = [];
  if (text === '') return list;
  const pairs = jsonParse(library('parseQuery', text));
  for (let i = 0; i < pairs.length; i++) push(list, { name: pairs[i][0], value: pairs[i][1] });
  return list;
}

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
  }

  constructor(init) {
    if (init === undefined || init === null) return;
    if (typeof init !== 'object' && typeof init !== 'function') {
      const text = usv(init);
      this.#list = parseQuery(startsWith(text, '?') ? slice(text, 1) : text);
    } else if (typeof init[Symbol.iterator] === 'function') {
      for (const pair of init) {
        const both = pair === null || typeof pair !== 'object' ? [] : [...pair];
        if (both.length !== 2) throw new TypeError('Each query pair must be an iterable [name, value] tuple');
        push(this.#list, { name: usv(both[0]), value: usv(both[1]) });
      }
    } else {
      const names = keys(init);
      for (let i = 0; i < names.length; i++) this.set(names[i], init[names[i]]); // names that differ in lone surrogates alone are one
    }
  }

  #edit(list) {
    this.#list = list;
    if (this.#changed) this.#changed(this.toString());
  }

  // #without drops the pairs of a name, or of a name and a value.
  #without(name, value) {
    const left = [];
    for (let i = 0; i < this.#list.length; i++) {
      const pair = this.#list[i];
      if (pair.name !== name || (value !== undefined && pair.value !== value)) push(left, pair);
    }
    return left;
  }

  get size() {
    return this.#list.length;
  }

  append(name, value) {
    push(this.#list, { name: usv(name), value: usv(value) });
    this.#edit(this.#list);
  }

  delete(name, value) {
    this.#edit(this.#without(usv(name), value === undefined ? undefined : usv(value)));
  }

  get(name) {
    name = usv(name);
    for (let i = 0; i < this.#list.length; i++) if (this.#list[i].name === name) return this.#list[i].value;
    return null;
  }

  getAll(name) {
    name = usv(name);
    const out = [];
    for (let i = 0; i < this.#list.length; i++) if (this.#list[i].name === name) push(out, this.#list[i].value);
    return out;
  }

  has(name, value) {
    return this.#without(usv(name), value === undefined ? undefined : usv(value)).length < this.#list.length;
  }

  set(name, value) {
    name = usv(name);
    const pair = { name, value: usv(value) };
    const out = [];
    let placed = false;
    for (let i = 0; i < this.#list.length; i++) {
      const old = this.#list[i];
      if (old.name !== name) push(out, old);
      else if (!placed) placed = push(out, pair) > 0;
    }
    if (!placed) push(out, pair);
    this.#edit(out);
  }

  sort() {
    sort(this.#list, (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    this.#edit(this.#list);
  }

  forEach(callback, self) {
    for (let i = 0; i < this.#list.length; i++) {
      apply(callback, self, [this.#list[i].value, this.#list[i].name, this]);
    }
  }

  *entries() {
    for (let i = 0; i < this.#list.length; i++) yield [this.#list[i].name, this.#list[i].value];
  }

  *keys() {
    for (let i = 0; i < this.#list.length; i++) yield this.#list[i].name;
  }

  *values() {
    for (let i = 0; i < this.#list.length; i++) yield this.#list[i].value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  [INSPECT](depth, options, inspect) {
    const pairs = [];
    for (let i = 0; i < this.#list.length; i++) {
      push(pairs, `${inspect(this.#list[i].name)} => ${inspect(this.#list[i].value)}`);
    }
    return pairs.length === 0 ? 'URLSearchParams {}' : `URLSearchParams { ${join(pairs, ', ')} }`;
  }

  toString() {
    let json = '';
    for (let i = 0; i < this.#list.length; i++) {
      json += `${i > 0 ? ',' : ''}[${jsonStringify(this.#list[i].name)},${jsonStringify(this.#list[i].value)}]`;
    }
    return library('serializeQuery', `[${json}]`);
  }
}

tag(URLSearchParams, 'URLSearchParams');
tagIterator(new URLSearchParams().entries(), 'URLSearchParams Iterator');
