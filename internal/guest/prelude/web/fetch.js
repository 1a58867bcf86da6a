// fetch, Request and Response (Fetch Standard). A request is a call of a tool of the built-in server http: fetch for GET and HEAD, send for the
// methods that may change something. So policy, approvals, limits and the journal judge each request, and each redirect that is followed.
import { Blob, blobBytes, isBlob } from './blob.js';
import { Headers } from './forms.js';
import {
  defineProperty, indexOf, join, push, regExpExec, reject, strIndexOf, symbolInspect, toLowerCase, toNumber,
  toStr, toUpperCase, toWellFormed, typedArrayBuffer, typedArraySlice,
} from '../intrinsics.js';
import { bytesOf, concat, decode, encode, toHex } from '../bytes.js';
import { parse, stringify } from '../exact.js';
import { library } from '../libraries.js';
import { replace, test } from '../text.js';
import { tag } from './shapes.js';
import { URLSearchParams } from './searchparams.js';
import { URL } from './url.js';

const READ = ['GET', 'HEAD'];
const CHANGE = ['POST', 'PUT', 'PATCH', 'DELETE'];
const MAX_REDIRECTS = 20;
const JSON_TYPE = /^[^;]*[/+]json\s*(;|$)/i;

const reason = (status) => library('reason', status);
const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function');

// fetchClasses makes {fetch, Request, Response}. ctx is that of install; FormData is its class.
export function fetchClasses(ctx, FormData) {
  // multipart is the body of a form, with its media type.
  const multipart = (form) => {
    const boundary = `----form${toHex(ctx.random(12))}`;
    const escapes = { __proto__: null, '"': '%22', '\r': '%0D', '\n': '%0A' };
    const quoted = (text) => `"${replace(/["\r\n]/g, text, (m) => escapes[m[0]])}"`;
    const parts = [];
    let texts = true;
    form.forEach((value, name) => {
      const head = `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(name)}`;
      if (isBlob(value)) {
        texts = false;
        push(parts, `${head}; filename=${quoted(value.name)}\r\nContent-Type: ${value.type || 'application/octet-stream'}\r\n\r\n`, blobBytes(value), '\r\n');
      } else {
        push(parts, `${head}\r\n\r\n${value}\r\n`);
      }
    });
    push(parts, `--${boundary}--\r\n`);
    const type = `multipart/form-data; boundary=${boundary}`;
    if (texts) return { type, text: join(parts, '') };
    for (let i = 0; i < parts.length; i++) if (typeof parts[i] === 'string') parts[i] = encode(parts[i]);
    return { type, bytes: concat(parts) };
  };

  // content is {type, text} or {type, bytes} of a body as programs give it; text stays text, so that tokens in it stand for their values.
  const content = (body, what) => {
    if (body === undefined || body === null) return undefined;
    if (typeof body === 'string') return { type: 'text/plain;charset=UTF-8', text: toWellFormed(body) };
    if (body instanceof URLSearchParams) return { type: 'application/x-www-form-urlencoded;charset=UTF-8', text: toStr(body) };
    if (body instanceof FormData) return multipart(body);
    if (isBlob(body)) return { type: body.type, bytes: blobBytes(body) };
    const bytes = bytesOf(body);
    if (bytes) return { type: '', bytes: typedArraySlice(bytes, 0) };
    if (typeof body !== 'object') return { type: 'text/plain;charset=UTF-8', text: toStr(body) };
    throw new TypeError(`the body of a ${what} is a string, bytes, a Blob, FormData or URLSearchParams: use JSON.stringify(data) for an object`);
  };

  // Content is what Request and Response share: a body that is read once.
  class Content {
    #body; // {text}, {bytes}, {value} of JSON, or {file} in /workspace; undefined for none
    #used = false;
    #headers;

    constructor(body, headers) {
      this.#body = body;
      this.#headers = headers;
      if (body?.type && !headers.has('content-type')) headers.set('content-type', body.type);
    }

    static of(from) { return from.#body; } // also of one that was read

    static copy(from) {
      if (from.#used) throw new TypeError('the body has been read already: clone before reading');
      return from.#body;
    }

    get headers() { return this.#headers; }
    get bodyUsed() { return this.#used; }
    get body() {
      if (this.#body === undefined) return null;
      throw new TypeError('there are no streams in the sandbox: use await response.text(), json() or bytes()');
    }

    #take() {
      if (this.#used) throw new TypeError('the body has been read already: keep its value, or clone before reading');
      this.#used = this.#body !== undefined;
      return this.#body ?? { text: '' };
    }

    async #bytes() {
      const body = this.#take();
      if (body.file !== undefined) return ctx.readFile(body.file);
      return body.bytes ?? encode(textOf(body));
    }

    async text() {
      const body = this.#take();
      if (body.file === undefined) return textOf(body);
      return decode(await ctx.readFile(body.file), false);
    }

    async json() {
      const body = this.#take();
      if (body.file !== undefined) return parse(decode(await ctx.readFile(body.file), false));
      return 'value' in body ? parse(stringify(body.value)) : parse(textOf(body));
    }

    async bytes() { return typedArraySlice(await this.#bytes(), 0); }
    async arrayBuffer() { return typedArrayBuffer(await this.bytes()); }
    async blob() { return new Blob([await this.#bytes()], { type: this.#headers.get('content-type') ?? '' }); }
    async formData() {
      const form = new FormData();
      if (!test(/^application\/x-www-form-urlencoded/i, this.#headers.get('content-type') ?? '')) {
        throw new TypeError('formData() reads application/x-www-form-urlencoded; read another body with text() or bytes()');
      }
      new URLSearchParams(await this.text()).forEach((value, name) => form.append(name, value));
      return form;
    }
  }

  class Request extends Content {
    #of;

    constructor(input, init = {}) {
      if (arguments.length === 0) throw new TypeError('a Request takes an address');
      if (!isObject(init)) throw new TypeError('the options of a request must be an object');
      const from = input instanceof Request ? input : undefined;
      const method = normalMethod(init.method ?? from?.method ?? 'GET');
      const body = init.body === undefined && from !== undefined ? Content.copy(from) : content(init.body, 'request');
      if (body !== undefined && indexOf(READ, method) >= 0) throw new TypeError(`a request with ${method} has no body: set method, such as 'POST'`);
      const redirect = init.redirect ?? from?.redirect ?? 'follow';
      if (indexOf(['follow', 'error', 'manual'], redirect) < 0) throw new TypeError(`redirect is follow, error or manual; got ${toStr(redirect)}`);
      if (init.integrity) throw new TypeError('integrity is not checked here: compare a hash of await response.bytes(), from crypto.subtle.digest');
      super(body, new Headers(init.headers ?? from?.headers ?? {}));
      this.#of = { method, url: from?.url ?? address(input), redirect, signal: init.signal ?? from?.signal ?? null };
    }

    get method() { return this.#of.method; }
    get url() { return this.#of.url; }
    get redirect() { return this.#of.redirect; }
    get signal() { return this.#of.signal; }
    clone() { return new Request(this); }

    [symbolInspect](depth, options, inspect) {
      return depth < 0 ? '[Request]' : `Request ${inspect({ method: this.method, url: this.url, headers: this.headers }, options)}`;
    }
  }
  tag(Request, 'Request');

  const empty = [101, 204, 205, 304];
  const received = Symbol('received'); // the answer of a tool in place of a body

  class Response extends Content {
    #of;

    constructor(body = null, init = {}) {
      if (!isObject(init)) throw new TypeError('the options of a Response must be an object');
      const status = init.status === undefined ? 200 : toNumber(init.status);
      const answer = init[received];
      if (!answer && !(status >= 200 && status <= 599)) throw new RangeError('the status of a Response is from 200 to 599');
      const inside = answer ? answer.content : content(body, 'response');
      if (!answer && inside !== undefined && indexOf(empty, status) >= 0) throw new TypeError(`a Response with the status ${status} has no body`);
      super(inside, new Headers(init.headers ?? {}));
      const statusText = init.statusText === undefined ? '' : toStr(init.statusText);
      this.#of = { status, statusText, url: answer?.url ?? '', redirected: answer?.redirected ?? false, type: answer ? 'basic' : 'default' };
    }

    static json(data, init = {}) {
      const text = stringify(data);
      if (text === undefined) throw new TypeError('the value is no JSON');
      const headers = new Headers(init?.headers ?? {});
      if (!headers.has('content-type')) headers.set('content-type', 'application/json');
      return new Response(text, { ...init, headers });
    }

    get status() { return this.#of.status; }
    get statusText() { return this.#of.statusText; }
    get ok() { return this.#of.status >= 200 && this.#of.status <= 299; }
    get url() { return this.#of.url; }
    get redirected() { return this.#of.redirected; }
    get type() { return this.#of.type; }

    clone() {
      const { status, statusText, url, redirected } = this.#of;
      const out = new Response(null, { status, statusText, headers: this.headers, [received]: { content: Content.copy(this), url, redirected } });
      out.#of = this.#of;
      return out;
    }

    [symbolInspect](depth, options, inspect) {
      const { status, statusText, headers, bodyUsed, ok, redirected, type, url } = this;
      return depth < 0 ? '[Response]' : `Response ${inspect({ status, statusText, headers, bodyUsed, ok, redirected, type, url }, options)}`;
    }
  }
  tag(Response, 'Response');
  for (const name of ['status', 'statusText', 'ok', 'url', 'redirected', 'type']) { // at boot, before any program
    defineProperty(Response.prototype, name, { __proto__: null, enumerable: true });
  }

  // input is that of the tool.
  const input = (request, url) => {
    const all = { __proto__: null, url, method: request.method };
    request.headers.forEach((value, name) => {
      all.headers ??= { __proto__: null };
      all.headers[name] = value;
    });
    const body = Content.copy(request);
    if (body !== undefined) all.body = body.bytes === undefined ? textOf(body) : { __proto__: null, base64: ctx.base64(body.bytes) };
    return all;
  };

  // respond makes the Response of a tool's answer.
  const respond = (answer, url, redirected) => {
    if (typeof answer?.note === 'string') throw new TypeError(`the answer of ${url} has ${answer.bytes} bytes with its status and headers, which are in ${answer.file}: ${answer.note}`);
    if (typeof answer?.file === 'string') { // of a success with content that is no text
      const type = { 'content-type': answer.mimeType ?? 'application/octet-stream', 'content-length': toStr(answer.bytes) };
      return new Response(null, { statusText: reason(200), headers: type, [received]: { content: { file: answer.file }, url, redirected } });
    }
    const { status, headers, body } = answer ?? {};
    if (typeof status !== 'number') throw new TypeError('the server named http is not the built-in one, which network.allow adds: call its tools as tools.http');
    let inside;
    if (typeof body !== 'string' || answer.notJSON !== true && body !== '' && test(JSON_TYPE, headers?.['content-type'] ?? '')) inside = { value: body };
    else if (body !== '') inside = { text: body };
    return new Response(null, { status, statusText: reason(status), headers, [received]: { content: inside, url, redirected } });
  };

  // follow makes the request, and those that redirects lead to.
  const follow = async (request, site) => {
    let url = locate(request.url);
    if (!isKnown(request.method)) throw new TypeError(`fetch makes requests with GET, HEAD, POST, PUT, PATCH and DELETE; got ${request.method}`);
    if (!test(/^https?:$/, url.protocol)) throw new TypeError(`fetch asks addresses that begin with https:// or http://; got ${url.protocol}`);
    for (let hops = 0; ; hops++) {
      url.hash = '';
      const response = respond(await ctx.http(indexOf(READ, request.method) < 0 ? 'send' : 'fetch', input(request, url.href), site), url.href, hops > 0);
      const { status } = response;
      const to = response.headers.get('location');
      if (to === null || indexOf([301, 302, 303, 307, 308], status) < 0 || request.redirect === 'manual') return response;
      if (request.redirect === 'error') throw new TypeError(`${url.href} redirects to ${to}, and redirect is 'error'`);
      if (hops === MAX_REDIRECTS) throw new TypeError(`fetch followed ${MAX_REDIRECTS} redirects; the last one leads to ${to}`);
      const next = locate(to, url.href);
      const headers = new Headers(request.headers);
      if (next.origin === undefined || next.origin !== url.origin) without(headers, ['authorization', 'cookie', 'proxy-authorization']);
      let { method } = request;
      let body = Content.of(request);
      if (status === 303 && method !== 'HEAD' || (status === 301 || status === 302) && method === 'POST') {
        method = 'GET';
        body = undefined;
        without(headers, ['content-type', 'content-encoding', 'content-language', 'content-location', 'content-length']);
      }
      const init = { method, headers, redirect: request.redirect, signal: request.signal };
      if (body !== undefined) init.body = body.bytes ?? textOf(body);
      request = new Request(next.href, init);
      url = next;
    }
  };

  function fetch(resource, init = undefined) {
    const site = ctx.callSite();
    try {
      if (arguments.length === 0) throw new TypeError('fetch takes an address');
      const request = new Request(resource, init ?? {});
      const { signal } = request;
      if (!signal) return follow(request, site);
      if (signal.aborted) return reject(signal.reason);
      return new Promise((done, failed) => {
        signal.addEventListener('abort', () => failed(signal.reason), { once: true });
        follow(request, site).then(done, failed);
      });
    } catch (error) {
      return reject(error);
    }
  }

  return { fetch, Request, Response };
}

function without(headers, names) {
  for (let i = 0; i < names.length; i++) headers.delete(names[i]);
}

const isKnown = (method) => indexOf(READ, method) >= 0 || indexOf(CHANGE, method) >= 0;

// normalMethod is a method as it is sent: those that fetch knows in upper case, others as they are.
function normalMethod(name) {
  const method = toStr(name);
  return isKnown(toUpperCase(method)) ? toUpperCase(method) : method;
}

// TOKEN is what stands for personal data, such as an IP address as the host of an address.
const TOKEN = /\[(PII_)?[A-Z][A-Z_]*_\d+\]/;

// locate is a URL, or {href} of one that no URL is made of, because a token stands for a part of it. The host gets the value.
function locate(text, base) {
  try {
    return new URL(text, base);
  } catch (error) {
    const whole = regExpExec(/^(https?:)\/\/[^/?#]*/i, text);
    if (!whole || !test(TOKEN, whole[0]) || strIndexOf(whole[0], '@') >= 0) throw error;
    return { __proto__: null, href: replace(/#.*$/g, text, () => ''), protocol: toLowerCase(whole[1]), username: '', password: '' };
  }
}

function address(value) {
  let url;
  try {
    url = locate(toStr(value));
  } catch {
    throw new TypeError(`'${toStr(value)}' is no whole address, such as https://api.example.com/v1/items`);
  }
  if (url.username !== '' || url.password !== '') throw new TypeError('an address may hold no user: give the header Authorization');
  return url.href;
}

const textOf = (body) => body.text ?? ('value' in body ? stringify(body.value) : decode(body.bytes, false));
