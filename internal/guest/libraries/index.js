// The libraries of the guest runtime. They run in a realm of their own, which programs cannot reach: whatever a program
// overwrites is not theirs. Text and numbers pass, other values as JSON text, and the caller's ArrayBuffers; no object of
// this realm reaches a program, and no other object of a program this realm.

import './text.js';
import { chacha20 } from '@noble/ciphers/chacha.js';
import { hexToBytes } from '@noble/ciphers/utils.js';
import { hmac } from '@noble/hashes/hmac.js';
import { md5, sha1 } from '@noble/hashes/legacy.js';
import {
  bg, cs, da, de, el, en, es, fi, fr, hi, hr, hu, id, it, ja, ko, nl, no, pl, pt, pt_PT, ro, ru, sk, sv, tr, uk, vi, zh,
} from 'make-plural/plurals';
import * as categories from 'make-plural/pluralCategories';
import { sha224, sha256, sha384, sha512, sha512_224, sha512_256 } from '@noble/hashes/sha2.js';
import { eastAsianWidthType } from 'get-east-asian-width';
import legacyURL from 'url/url.js';
import { TextDecoder as Decoder, TextEncoder } from './node_modules/@exodus/bytes/encoding.js';
import { utf8toString, utf8toStringLoose } from '@exodus/bytes/utf8.js';
import path from 'path-browserify';
import reasons from 'statuses/codes.json';
import { URL } from 'whatwg-url';
import { parseUrlencodedString, serializeUrlencoded } from './node_modules/whatwg-url/lib/urlencoded.js';
import { toUnicode } from './tr46.js';

// What shows the machine or the collector has no use here.
for (const name of ['Atomics', 'FinalizationRegistry', 'SharedArrayBuffer', 'WeakRef', 'WebAssembly', 'console']) {
  delete globalThis[name];
}
delete Math.random;
Object.defineProperty(Error, 'prepareStackTrace', { value: undefined, writable: false, configurable: false });

// reason is the phrase of a status of HTTP, '' for one without.
export function reason(status) {
  return JSON.parse(reasons)[status] ?? '';
}

const algorithms = {
  __proto__: null, md5, sha1, sha224, sha256, sha384, sha512, 'sha512-224': sha512_224, 'sha512-256': sha512_256,
};

// wrap makes functions of a hash: bytes are an ArrayBuffer and a range in it.
const wrap = (state) => ({
  __proto__: null,
  size: state.outputLen,
  update: (buffer, offset, length) => { state.update(new Uint8Array(buffer, offset, length)); },
  digest: (buffer) => { state.digestInto(new Uint8Array(buffer)); },
  copy: () => wrap(state.clone()),
});

// hashes are the algorithms' names in Node's spelling.
export const hashes = Object.keys(algorithms).join(' ');

// hash begins a hash, or with the key of buffer an HMAC.
export function hash(name, buffer, offset, length) {
  const algorithm = algorithms[name];
  return wrap(buffer === undefined ? algorithm.create() : hmac.create(algorithm, new Uint8Array(buffer, offset, length)));
}

// parseURL, formatURL and resolveURL are those of Node's url module from before URL. The first returns, the second takes
// the properties as JSON; a query is text.
export function parseURL(text, slashesDenoteHost) {
  return JSON.stringify(legacyURL.parse(text, false, slashesDenoteHost));
}

export function formatURL(properties) {
  return legacyURL.format(JSON.parse(properties));
}

export function resolveURL(from, to) {
  return legacyURL.resolve(from, to);
}

// An address that stands as it is after parsing: http or https, a name in lower case that is no number, no port that is the
// scheme's own, no segment of dots, nothing to encode. The state machine takes ten times as long.
const plain = new RegExp('^(https?:)//((?!.*xn--)[a-z\\d-]+(?:\\.[a-z\\d-]+)*?\\.[a-z]{2,}|localhost)(?::(?!80/|443/)([1-9]\\d{0,3}))?' +
  "(/(?![^?#]*/\\.)(?!\\.)[\\w.~!$&'()*+,;=:@/-]*)(\\?[\\w.~!$&()*+,;=:@%/?-]+)?(#[\\w.~!$&'()*+,;=:@%/?-]+)?$");

// attribute reads an attribute of a match of plain.
function attribute([href, protocol, hostname, port = '', pathname, search = '', hash = ''], name) {
  switch (name) {
    case 'href': return href;
    case 'origin': return `${protocol}//${hostname}${port && ':'}${port}`;
    case 'host': return `${hostname}${port && ':'}${port}`;
    case 'username': case 'password': return '';
    default: return { protocol, hostname, port, pathname, search, hash }[name];
  }
}

// openURL parses a URL, and returns functions that read and set its attributes by name; setting says whether the value was
// valid. It returns null for what is no URL.
export function openURL(text, base) {
  let match = base === undefined ? plain.exec(text) : null;
  let url = match === null ? URL.parse(text, base) : undefined;
  return url === null ? null : {
    __proto__: null,
    get: (name) => (match === null ? url[name] : attribute(match, name)),
    set: (name, value) => {
      if (name === 'href' && !URL.canParse(value)) return false;
      url ??= new URL(text);
      match = null;
      url[name] = value;
      return true;
    },
  };
}

// parseQuery and serializeQuery are application/x-www-form-urlencoded, with pairs of name and value as JSON.
export function parseQuery(text) {
  return JSON.stringify(parseUrlencodedString(text));
}

export function serializeQuery(pairs) {
  return serializeUrlencoded(JSON.parse(pairs));
}

// domainToUnicode gives '' for what is no domain.
export function domainToUnicode(text) {
  const url = URL.parse(`ws://${text}`);
  return url === null ? '' : toUnicode(url.hostname, { checkBidi: true, checkJoiners: true }).domain;
}

// openDecoder makes a decoder of a text encoding that a label of the Encoding Standard names; null for another label. Its function decode
// returns null for bytes that are not valid where that is fatal.
export function openDecoder(label, fatal, ignoreBOM) {
  let decoder;
  try {
    decoder = new Decoder(label, { fatal, ignoreBOM });
  } catch {
    return null;
  }
  return {
    __proto__: null,
    encoding: decoder.encoding,
    decode: (buffer, offset, length, stream) => {
      try {
        return decoder.decode(new Uint8Array(buffer, offset, length), { stream });
      } catch {
        return null;
      }
    },
  };
}

// keyStream fills a buffer with ChaCha20's key stream from a block on; the key is text in hexadecimal.
export function keyStream(key, block, buffer) {
  const bytes = new Uint8Array(buffer);
  chacha20(hexToBytes(key), new Uint8Array(12), bytes, bytes, block);
}

const encoder = new TextEncoder();

// encodeInto writes the UTF-8 of a text into a range of a buffer, and returns what it read and wrote as JSON.
export function encodeInto(text, buffer, offset, length) {
  return JSON.stringify(encoder.encodeInto(text, new Uint8Array(buffer, offset, length)));
}

// decodeLoosely and decodeStrictly return the text of UTF-8 bytes; the second null if they are not valid.
export function decodeLoosely(buffer, offset, length) {
  return utf8toStringLoose(new Uint8Array(buffer, offset, length));
}

export function decodeStrictly(buffer, offset, length) {
  try {
    return utf8toString(new Uint8Array(buffer, offset, length));
  } catch {
    return null;
  }
}

// width is the number of columns of a text in a terminal, as Node.js counts them.
export function width(text) {
  let columns = 0;
  let before = '';
  for (const c of text.normalize('NFC')) {
    const plain = (c >= ' ' && c <= '~') || (c >= '\u00c0' && c <= '\u02ff'); // Latin letters
    const joined = !plain && before === '\u200d' && /[\p{Emoji_Presentation}\p{Emoji_Modifier}]/u.test(c);
    if (!joined) columns += plain ? 1 : columnsOf(c);
    before = c;
  }
  return columns;
}

function columnsOf(c) {
  const type = eastAsianWidthType(c.codePointAt(0));
  if (type === 'wide' || type === 'fullwidth' || ((type === 'neutral' || type === 'ambiguous') && /\p{Emoji}/u.test(c))) return 2;
  return /[^\u00ad]/u.test(c) && /[\p{Cc}\p{Cf}\p{Me}\p{Mn}\p{Emoji_Modifier}]/u.test(c) ? 0 : 1;
}

globalThis.process = { cwd: () => '/workspace' }; // where relative paths of files go

// callPath calls a function of Node's path.posix. Arguments and result are JSON.
export function callPath(name, args) {
  return JSON.stringify(path[name](...JSON.parse(args)));
}

const plurals = {
  __proto__: null, bg, cs, da, de, el, en, es, fi, fr, hi, hr, hu, id, it, ja, ko, nl, nb: no, pl, pt, 'pt-PT': pt_PT, ro, ru, sk, sv, tr,
  uk, vi, zh,
};

// plural returns the plural category of a number, given as its digits, in a language.
export function plural(language, digits, ordinal) {
  return plurals[language](digits, ordinal);
}

// pluralCategories are those of a language, in the order of the alphabet with other at the end.
export function pluralCategories(language, ordinal) {
  const all = { ...categories, nb: categories.no, 'pt-PT': categories.pt_PT }[language][ordinal ? 'ordinal' : 'cardinal'];
  return [...all].filter((name) => name !== 'other').sort().concat('other').join(' ');
}
