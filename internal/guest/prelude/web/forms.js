// Headers (Fetch Standard, section 5.1) and FormData (XMLHttpRequest Standard): lists of names and values.
import { isBlob } from './blob.js';
import {
  apply, arraySlice, INSPECT, join, keys, lower, push, replace, sort, str, tag, tagIterator, test, toWellFormed, indexOf,
} from './intrinsics.js';

const TOKEN = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/;

function headerName(name) {
  name = str(name);
  if (!test(TOKEN, name)) throw new TypeError(`Headers: '${name}' is not a valid name`);
  return lower(name);
}

function headerValue(value) {
  value = replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, str(value), () => '');
  if (test(/[\0\n\r\u0100-\uffff]/, value)) throw new TypeError('Headers: a value has characters that no header can have');
  return value;
}

// pairsOf calls add with the pairs of an iterable of pairs or of an object.
function pairsOf(what, init, add) {
  if (init === null || typeof init !== 'object' && typeof init !== 'function') throw new TypeError(`${what} takes an object or pairs`);
  if (typeof init[Symbol.iterator] === 'function') {
    for (const pair of init) {
      const both = pair === null || typeof pair !== 'object' ? [] : [...pair];
      if (both.length !== 2) throw new TypeError(`${what}: each pair must have a name and a value`);
      add(both[0], both[1]);
    }
    return;
  }
  const names = keys(init);
  for (let i = 0; i < names.length; i++) add(names[i], init[names[i]]);
}

export class Headers {
  #list = []; // [name, value]

  constructor(init = undefined) {
    if (init !== undefined) pairsOf('Headers', init, (name, value) => this.append(name, value));
  }

  #values(name) {
    const values = [];
    for (let i = 0; i < this.#list.length; i++) if (this.#list[i][0] === name) push(values, this.#list[i][1]);
    return values;
  }

  // #sorted are the names in order, each with its values as one, but of Set-Cookie each by itself.
  #sorted() {
    const names = [];
    for (let i = 0; i < this.#list.length; i++) if (indexOf(names, this.#list[i][0]) < 0) push(names, this.#list[i][0]);
    sort(names);
    const pairs = [];
    for (let i = 0; i < names.length; i++) {
      const values = this.#values(names[i]);
      if (names[i] !== 'set-cookie') push(pairs, [names[i], join(values, ', ')]);
      else for (let k = 0; k < values.length; k++) push(pairs, [names[i], values[k]]);
    }
    return pairs;
  }

  append(name, value) {
    push(this.#list, [headerName(name), headerValue(value)]);
  }

  delete(name) {
    name = headerName(name);
    const left = [];
    for (let i = 0; i < this.#list.length; i++) if (this.#list[i][0] !== name) push(left, this.#list[i]);
    this.#list = left;
  }

  get(name) {
    const values = this.#values(headerName(name));
    return values.length === 0 ? null : join(values, ', ');
  }

  getSetCookie() { return this.#values('set-cookie'); }
  has(name) { return this.#values(headerName(name)).length > 0; }

  set(name, value) {
    value = headerValue(value);
    this.delete(name);
    this.append(name, value);
  }

  forEach(callback, self) {
    const pairs = this.#sorted();
    for (let i = 0; i < pairs.length; i++) apply(callback, self, [pairs[i][1], pairs[i][0], this]);
  }

  *entries() {
    for (let i = 0, pairs; i < (pairs = this.#sorted()).length; i++) yield pairs[i];
  }

  *keys() {
    for (let i = 0, pairs; i < (pairs = this.#sorted()).length; i++) yield pairs[i][0];
  }

  *values() {
    for (let i = 0, pairs; i < (pairs = this.#sorted()).length; i++) yield pairs[i][1];
  }

  [Symbol.iterator]() { return this.entries(); }

  [INSPECT](depth, options, inspect) {
    const shown = {};
    for (let i = 0; i < this.#list.length; i++) shown[this.#list[i][0]] = join(this.#values(this.#list[i][0]), ', ');
    return depth < 0 ? '[Headers]' : `Headers ${inspect(shown, options)}`;
  }
}
tag(Headers, 'Headers');
tagIterator(new Headers().entries(), 'Headers Iterator');

// formDataClass makes FormData; File is the class that values which are Blobs become.
export function formDataClass(File) {
  const entry = (value, name) => {
    if (!isBlob(value)) return toWellFormed(str(value));
    if (value instanceof File && name === undefined) return value;
    return new File([value], name === undefined ? 'blob' : str(name), { type: value.type, lastModified: value.lastModified });
  };

  class FormData {
    #list = []; // [name, value]

    constructor(form = undefined) {
      if (form !== undefined) throw new TypeError('FormData takes no form: there is no document');
    }

    append(name, value, filename) {
      push(this.#list, [toWellFormed(str(name)), entry(value, filename)]);
    }

    delete(name) {
      this.#list = this.#where(name, false);
    }

    // #where returns the pairs with a name, or without it.
    #where(name, equal) {
      name = toWellFormed(str(name));
      const found = [];
      for (let i = 0; i < this.#list.length; i++) if ((this.#list[i][0] === name) === equal) push(found, this.#list[i]);
      return found;
    }

    get(name) {
      const found = this.#where(name, true);
      return found.length === 0 ? null : found[0][1];
    }

    getAll(name) {
      const found = this.#where(name, true);
      for (let i = 0; i < found.length; i++) found[i] = found[i][1];
      return found;
    }

    has(name) { return this.#where(name, true).length > 0; }

    set(name, value, filename) {
      name = toWellFormed(str(name));
      const pair = [name, entry(value, filename)];
      const list = [];
      let placed = false;
      for (let i = 0; i < this.#list.length; i++) {
        if (this.#list[i][0] !== name) push(list, this.#list[i]);
        else if (!placed) placed = push(list, pair) > 0;
      }
      if (!placed) push(list, pair);
      this.#list = list;
    }

    forEach(callback, self) {
      const list = arraySlice(this.#list);
      for (let i = 0; i < list.length; i++) apply(callback, self, [list[i][1], list[i][0], this]);
    }

    *entries() {
      for (let i = 0; i < this.#list.length; i++) yield [this.#list[i][0], this.#list[i][1]];
    }

    *keys() {
      for (let i = 0; i < this.#list.length; i++) yield this.#list[i][0];
    }

    *values() {
      for (let i = 0; i < this.#list.length; i++) yield this.#list[i][1];
    }

    [Symbol.iterator]() { return this.entries(); }
  }
  tag(FormData, 'FormData');
  tagIterator(new FormData().entries(), 'FormData Iterator');
  return FormData;
}
