// URL over a parser of the libraries, which keeps the address and its attributes.
import { guarded, library } from '../libraries.js';
import { coded } from '../node/refuse.js';
import { defineProperty, strSlice, symbolInspect, toStr } from '../intrinsics.js';
import { tag } from './shapes.js';
import { queryOf, replaceQuery, usv } from './searchparams.js';

const open = (input, base) => library('openURL', usv(input), base === undefined ? undefined : usv(base));

function invalid(input, base) {
  const error = coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL');
  error.input = input;
  if (base !== undefined) error.base = toStr(base);
  return error;
}

// read and write are set by the class, whose objects alone have what they take.
let read;
let write;

export class URL {
  #url;
  #params = null;

  static {
    read = (url, name) => guarded(url.#url.get)(name);
    write = (url, name, value) => {
      const text = usv(value);
      if (!guarded(url.#url.set)(name, text)) throw invalid(text);
      if (url.#params !== null && (name === 'href' || name === 'search')) replaceQuery(url.#params, strSlice(read(url, 'search'), 1));
    };
  }

  constructor(input, base = undefined) {
    if (arguments.length === 0) throw new TypeError('URL needs an address');
    this.#url = open(input, base);
    if (this.#url === null) throw invalid(toStr(input), base);
  }

  static canParse(input, base = undefined) {
    return open(input, base) !== null;
  }

  static parse(input, base = undefined) {
    return URL.canParse(input, base) ? new URL(input, base) : null;
  }

  get searchParams() {
    this.#params ??= queryOf(strSlice(read(this, 'search'), 1), (text) => guarded(this.#url.set)('search', text));
    return this.#params;
  }

  [symbolInspect](depth, options, inspect) {
    const shown = {};
    for (let i = 0; i < ATTRIBUTES.length; i++) shown[ATTRIBUTES[i]] = this[ATTRIBUTES[i]];
    return depth < 0 ? '[URL]' : `URL ${inspect(shown, options)}`;
  }

  toString() { return read(this, 'href'); }
  toJSON() { return read(this, 'href'); }
}

const ATTRIBUTES = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search',
  'searchParams', 'hash'];

for (let i = 0; i < ATTRIBUTES.length; i++) {
  const name = ATTRIBUTES[i];
  if (name === 'searchParams') continue;
  const accessors = {
    get [name]() { return read(this, name); },
    set [name](value) { write(this, name, value); },
  };
  const { get, set } = Object.getOwnPropertyDescriptor(accessors, name);
  defineProperty(URL.prototype, name, {
    __proto__: null, get, set: name === 'origin' ? undefined : set, enumerable: true, configurable: true,
  });
}
tag(URL, 'URL');
