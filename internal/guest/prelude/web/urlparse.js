// The URL Standard's basic URL parser: a state machine over the input, with a state override for the setters. A record
// is {scheme, username, password, host, port, path, query, fragment}; path is an array, or a string where it is opaque.
import { arraySlice, codePointAt, join, lower, pop, push, replace, slice, test }
  from './intrinsics.js';
import { parseHost } from './host.js';
import { C0, FRAGMENT, PATH, percentEncode, QUERY, SPECIAL_QUERY, USERINFO } from './percent.js';

export const PORTS = { __proto__: null, http: 80, https: 443, ws: 80, wss: 443, ftp: 21, file: null };
export const isSpecial = (url) => PORTS[url.scheme] !== undefined;

const WINDOWS_LETTER = /^[a-zA-Z][:|]$/;
const startsWithDrive = (text) => test(/^[a-zA-Z][:|](?:[/\\?#]|$)/, text);
const isSingleDot = (text) => test(/^(?:\.|%2e)$/i, text);
const isDoubleDot = (text) => test(/^(?:\.|%2e){2}$/i, text);

// shorten drops a path's last segment, but no drive letter of a file URL.
function shorten(url) {
  if (url.scheme === 'file' && url.path.length === 1 && test(/^[a-zA-Z]:$/, url.path[0])) return;
  pop(url.path);
}

export function serialize(url, withoutFragment) {
  let out = url.scheme + ':';
  if (url.host !== null) {
    out += '//';
    if (url.username !== '' || url.password !== '') {
      out += url.username + (url.password !== '' ? ':' + url.password : '') + '@';
    }
    out += url.host + (url.port !== null ? ':' + url.port : '');
  } else if (typeof url.path !== 'string' && url.path.length > 1 && url.path[0] === '') out += '/.';
  out += pathOf(url) + (url.query !== null ? '?' + url.query : '');
  return withoutFragment || url.fragment === null ? out : out + '#' + url.fragment;
}

export const pathOf = (url) =>
  (typeof url.path === 'string' ? url.path : url.path.length ? '/' + join(url.path, '/') : '');

// parse returns a URL record, or null where the input is no valid URL.
export function parse(input, base) {
  const url = { scheme: '', username: '', password: '', host: null, port: null, path: [], query: null, fragment: null };
  return run(replace(/^[\0-\x20]+|[\0-\x20]+$/g, input, () => ''), base, url, undefined) ? url : null;
}

// override runs the parser from one state on an existing record; false where the input is refused.
export const override = (input, url, state) => run(input, null, url, state);

function run(text, base, url, over) {
  const input = replace(/[\t\n\r]/g, text, () => '');
  let state = over ?? 'scheme start';
  let buffer = '';
  let atSeen = false;
  let inBrackets = false;
  let tokenSeen = false;
  const ends = (c) => c === undefined || c === '/' || c === '?' || c === '#' || (c === '\\' && isSpecial(url));
  const copy = (path) => (typeof path === 'string' ? path : arraySlice(path));

  for (let i = 0; ; i++) {
    const c = input[i];
    switch (state) {
      case 'scheme start':
        if (c !== undefined && test(/[a-zA-Z]/, c)) {
          buffer = lower(c);
          state = 'scheme';
        } else if (over) return false;
        else {
          state = 'no scheme';
          i--;
        }
        break;

      case 'scheme':
        if (c !== undefined && test(/[a-zA-Z0-9+\-.]/, c)) buffer += lower(c);
        else if (c === ':') {
          if (over) {
            const special = PORTS[buffer] !== undefined;
            if (special !== isSpecial(url)) return true;
            if (buffer === 'file' && (url.username !== '' || url.password !== '' || url.port !== null)) return true;
            if (url.scheme === 'file' && url.host === '') return true;
            url.scheme = buffer;
            if (url.port === PORTS[buffer]) url.port = null;
            return true;
          }
          url.scheme = buffer;
          buffer = '';
          if (url.scheme === 'file') state = 'file';
          else if (isSpecial(url)) {
            state = base?.scheme === url.scheme ? 'special relative or authority' : 'special authority slashes';
          } else if (input[i + 1] === '/') {
            state = 'path or authority';
            i++;
          } else {
            url.path = '';
            state = 'opaque path';
          }
        } else if (over) return false;
        else {
          buffer = '';
          state = 'no scheme';
          i = -1;
        }
        break;

      case 'no scheme':
        if (!base || (typeof base.path === 'string' && c !== '#')) return false;
        if (typeof base.path === 'string') {
          url.scheme = base.scheme;
          url.path = base.path;
          url.query = base.query;
          url.fragment = '';
          state = 'fragment';
        } else {
          state = base.scheme === 'file' ? 'file' : 'relative';
          i--;
        }
        break;

      case 'special relative or authority':
        if (c === '/' && input[i + 1] === '/') {
          state = 'special authority ignore slashes';
          i++;
        } else {
          state = 'relative';
          i--;
        }
        break;

      case 'path or authority':
        state = c === '/' ? 'authority' : 'path';
        if (state === 'path') i--;
        break;

      case 'relative':
        url.scheme = base.scheme;
        if (c === '/' || (c === '\\' && isSpecial(url))) {
          state = 'relative slash';
          break;
        }
        url.username = base.username;
        url.password = base.password;
        url.host = base.host;
        url.port = base.port;
        url.path = copy(base.path);
        url.query = base.query;
        if (c === '?') {
          url.query = '';
          state = 'query';
        } else if (c === '#') {
          url.fragment = '';
          state = 'fragment';
        } else if (c !== undefined) {
          url.query = null;
          pop(url.path);
          state = 'path';
          i--;
        }
        break;

      case 'relative slash':
        if (isSpecial(url) && (c === '/' || c === '\\')) state = 'special authority ignore slashes';
        else if (c === '/') state = 'authority';
        else {
          url.username = base.username;
          url.password = base.password;
          url.host = base.host;
          url.port = base.port;
          state = 'path';
          i--;
        }
        break;

      case 'special authority slashes':
        state = 'special authority ignore slashes';
        if (c === '/' && input[i + 1] === '/') i++;
        else i--;
        break;

      case 'special authority ignore slashes':
        if (c !== '/' && c !== '\\') {
          state = 'authority';
          i--;
        }
        break;

      case 'authority':
        if (c === '@') {
          if (atSeen) buffer = '%40' + buffer;
          atSeen = true;
          for (let k = 0; k < buffer.length; k++) {
            if (buffer[k] === ':' && !tokenSeen) {
              tokenSeen = true;
              continue;
            }
            let point = buffer[k];
            if (codePointAt(buffer, k) > 0xffff) point += buffer[++k];
            if (tokenSeen) url.password += percentEncode(point, USERINFO);
            else url.username += percentEncode(point, USERINFO);
          }
          buffer = '';
        } else if (ends(c)) {
          if (atSeen && buffer === '') return false;
          i -= buffer.length + 1;
          buffer = '';
          state = 'host';
        } else buffer += c;
        break;

      case 'host':
      case 'hostname':
        if (over && url.scheme === 'file') {
          i--;
          state = 'file host';
        } else if (c === ':' && !inBrackets) {
          if (buffer === '' || over === 'hostname') return false;
          const host = parseHost(buffer, isSpecial(url));
          if (host === undefined) return false;
          url.host = host;
          buffer = '';
          state = 'port';
        } else if (ends(c)) {
          if (isSpecial(url) && buffer === '') return false;
          if (over && buffer === '' && (url.username !== '' || url.password !== '' || url.port !== null)) return false;
          const host = buffer === '' ? '' : parseHost(buffer, isSpecial(url));
          if (host === undefined) return false;
          url.host = host;
          buffer = '';
          if (over) return true;
          state = 'path start';
          i--;
        } else {
          if (c === '[') inBrackets = true;
          if (c === ']') inBrackets = false;
          buffer += c;
        }
        break;

      case 'port':
        if (c !== undefined && test(/\d/, c)) buffer += c;
        else if (ends(c) || over) {
          if (buffer !== '') {
            if (+buffer > 65535) return false;
            url.port = +buffer === PORTS[url.scheme] ? null : +buffer;
            buffer = '';
            if (over) return true;
          }
          if (over) return false;
          state = 'path start';
          i--;
        } else return false;
        break;

      case 'file':
        url.scheme = 'file';
        url.host = '';
        if (c === '/' || c === '\\') state = 'file slash';
        else if (base?.scheme === 'file') {
          url.host = base.host;
          url.path = copy(base.path);
          url.query = base.query;
          if (c === '?') {
            url.query = '';
            state = 'query';
          } else if (c === '#') {
            url.fragment = '';
            state = 'fragment';
          } else if (c !== undefined) {
            url.query = null;
            if (startsWithDrive(slice(input, i))) url.path = [];
            else shorten(url);
            state = 'path';
            i--;
          }
        } else {
          state = 'path';
          i--;
        }
        break;

      case 'file slash':
        if (c === '/' || c === '\\') {
          state = 'file host';
          break;
        }
        if (base?.scheme === 'file') {
          url.host = base.host;
          if (!startsWithDrive(slice(input, i)) && base.path.length && test(/^[a-zA-Z]:$/, base.path[0])) {
            push(url.path, base.path[0]);
          }
        }
        state = 'path';
        i--;
        break;

      case 'file host':
        if (c === undefined || c === '/' || c === '\\' || c === '?' || c === '#') {
          i--;
          if (!over && test(WINDOWS_LETTER, buffer)) {
            state = 'path'; // the buffer stays: it begins the path
          } else {
            const host = buffer === '' ? '' : parseHost(buffer, true);
            if (host === undefined) return false;
            url.host = host === 'localhost' ? '' : host;
            if (over) return true;
            buffer = '';
            state = 'path start';
          }
        } else buffer += c;
        break;

      case 'path start':
        if (isSpecial(url)) {
          state = 'path';
          if (c !== '/' && c !== '\\') i--;
        } else if (!over && c === '?') {
          url.query = '';
          state = 'query';
        } else if (!over && c === '#') {
          url.fragment = '';
          state = 'fragment';
        } else if (c !== undefined) {
          state = 'path';
          if (c !== '/') i--;
        } else if (over && url.host === null) push(url.path, '');
        break;

      case 'path':
        if (c === undefined || c === '/' || (c === '\\' && isSpecial(url)) || (!over && (c === '?' || c === '#'))) {
          const slash = c === '/' || (c === '\\' && isSpecial(url));
          if (isDoubleDot(buffer)) {
            shorten(url);
            if (!slash) push(url.path, '');
          } else if (isSingleDot(buffer)) {
            if (!slash) push(url.path, '');
          } else {
            if (url.scheme === 'file' && url.path.length === 0 && test(WINDOWS_LETTER, buffer)) {
              buffer = buffer[0] + ':';
            }
            push(url.path, percentEncode(buffer, PATH));
          }
          buffer = '';
          if (c === '?') {
            url.query = '';
            state = 'query';
          } else if (c === '#') {
            url.fragment = '';
            state = 'fragment';
          }
        } else buffer += c;
        break;

      case 'opaque path':
        if (c === '?' || c === '#' || c === undefined) {
          url.path = percentEncode(buffer, C0);
          buffer = '';
          if (c === '?') {
            url.query = '';
            state = 'query';
          } else if (c === '#') {
            url.fragment = '';
            state = 'fragment';
          }
        } else buffer += c;
        break;

      case 'query':
        if (c === undefined || (!over && c === '#')) {
          url.query += percentEncode(buffer, isSpecial(url) ? SPECIAL_QUERY : QUERY);
          buffer = '';
          if (c === '#') {
            url.fragment = '';
            state = 'fragment';
          }
        } else buffer += c;
        break;

      case 'fragment':
        url.fragment += percentEncode(slice(input, i), FRAGMENT);
        return true;
    }
    if (c === undefined && i >= input.length) return true;
  }
}
