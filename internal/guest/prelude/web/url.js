// URL (URL Standard, section 5): attributes over a record of the parser.
import { INSPECT, slice, str, startsWith, tag } from './intrinsics.js';
import { percentEncode, USERINFO } from './percent.js';
import { queryOf, replaceQuery, usv } from './searchparams.js';
import { isSpecial, override, parse, pathOf, serialize } from './urlparse.js';

const noCredentials = (url) => url.host === null || url.host === '' || url.scheme === 'file';
const opaque = (url) => typeof url.path === 'string';

function parseBoth(input, base) {
  if (base === undefined) return parse(usv(input), null);
  const record = parse(usv(base), null);
  return record && parse(usv(input), record);
}

export class URL {
  #url;
  #params = null;

  constructor(input, base = undefined) {
    if (arguments.length === 0) throw new TypeError('URL needs an address');
    this.#url = parseBoth(input, base);
    if (this.#url) return;
    const on = base === undefined ? '' : ` (base ${slice(str(base), 0, 200)})`;
    const error = new TypeError(`Invalid URL: ${slice(str(input), 0, 200)}${on}`);
    error.code = 'ERR_INVALID_URL';
    error.input = str(input);
    throw error;
  }

  static canParse(input, base = undefined) {
    return parseBoth(input, base) !== null;
  }

  static parse(input, base = undefined) {
    return URL.canParse(input, base) ? new URL(input, base) : null;
  }

  get href() { return serialize(this.#url); }
  set href(value) {
    const url = parse(usv(value), null);
    if (!url) throw new TypeError(`Invalid URL: ${slice(str(value), 0, 200)}`);
    this.#url = url;
    if (this.#params) replaceQuery(this.#params, url.query ?? '');
  }

  get origin() {
    const url = this.#url;
    if (url.scheme === 'blob') {
      const inner = parse(pathOf(url), null);
      return inner && (inner.scheme === 'http' || inner.scheme === 'https') ? originOf(inner) : 'null';
    }
    return isSpecial(url) && url.scheme !== 'file' ? originOf(url) : 'null';
  }

  get protocol() { return this.#url.scheme + ':'; }
  set protocol(value) { override(usv(value) + ':', this.#url, 'scheme start'); }

  get username() { return this.#url.username; }
  set username(value) {
    if (!noCredentials(this.#url)) this.#url.username = percentEncode(usv(value), USERINFO);
  }

  get password() { return this.#url.password; }
  set password(value) {
    if (!noCredentials(this.#url)) this.#url.password = percentEncode(usv(value), USERINFO);
  }

  get host() {
    const { host, port } = this.#url;
    return host === null ? '' : port === null ? host : `${host}:${port}`;
  }
  set host(value) {
    if (!opaque(this.#url)) override(usv(value), this.#url, 'host');
  }

  get hostname() { return this.#url.host ?? ''; }
  set hostname(value) {
    if (!opaque(this.#url)) override(usv(value), this.#url, 'hostname');
  }

  get port() { return this.#url.port === null ? '' : str(this.#url.port); }
  set port(value) {
    if (noCredentials(this.#url)) return;
    if (str(value) === '') this.#url.port = null;
    else override(usv(value), this.#url, 'port');
  }

  get pathname() { return pathOf(this.#url); }
  set pathname(value) {
    if (opaque(this.#url)) return;
    this.#url.path = [];
    override(usv(value), this.#url, 'path start');
  }

  get search() { return this.#url.query ? '?' + this.#url.query : ''; }
  set search(value) {
    let text = usv(value);
    if (text === '') this.#url.query = null;
    else {
      if (startsWith(text, '?')) text = slice(text, 1);
      this.#url.query = '';
      override(text, this.#url, 'query');
    }
    if (this.#params) replaceQuery(this.#params, this.#url.query ?? '');
  }

  get searchParams() {
    this.#params ??= queryOf(this.#url.query ?? '', (text) => {
      this.#url.query = text === '' ? null : text;
    });
    return this.#params;
  }

  get hash() { return this.#url.fragment ? '#' + this.#url.fragment : ''; }
  set hash(value) {
    const text = usv(value);
    if (text === '') this.#url.fragment = null;
    else {
      this.#url.fragment = '';
      override(startsWith(text, '#') ? slice(text, 1) : text, this.#url, 'fragment');
    }
  }

  [INSPECT](depth, options, inspect) {
    const shown = {};
    for (let i = 0; i < ATTRIBUTES.length; i++) shown[ATTRIBUTES[i]] = this[ATTRIBUTES[i]];
    return depth < 0 ? '[URL]' : `URL ${inspect(shown, options)}`;
  }

  toString() { return this.href; }
  toJSON() { return this.href; }
}

const ATTRIBUTES = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search',
  'searchParams', 'hash'];

const originOf = (url) => `${url.scheme}://${url.host}${url.port === null ? '' : `:${url.port}`}`;

tag(URL, 'URL');
