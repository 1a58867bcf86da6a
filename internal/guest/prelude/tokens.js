// Telling a program, once each, where it does with a token what cannot work. A token such as [CREDIT_CARD_1] stands for a value that the program
// does not have: a part of it, a match in it, a number made of it is not that of the value. The methods are watched from the first answer with a
// token on, so that other programs pay nothing.

import {
  apply, charCodeAt, construct, create, define, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, global, isArray, isInteger, lastIndexOf, list, mapClear, mapGet, mapSet, mapSize, max, min,
  NativeMap, NativeRegExp, ownKeys, push, regExpExec, regExpFlags, regExpSource, sort, startsWith, strIncludes, strIndexOf, strSlice, symbolIterator, toLowerCase,
  toNumber, uncurry,
} from './intrinsics.js';
import { markNative } from './brands.js';
import { sendNote } from './calls.js';
import { callSite, frames, stackOf } from './errors.js';
import { hideSource } from './sources.js';
import { replace, test } from './text.js';

const bracketed = /^\[(?:PII_)?([A-Z][A-Z0-9_]*)_[1-9][0-9]{0,9}\]$/;
const bracketedIn = /\[(?:PII_)?([A-Z][A-Z0-9_]*)_[1-9][0-9]{0,9}\]/g;
const natural = /^(?:pii_[1-9][0-9]{0,9}e(?:@(?:[a-z0-9-]+\.)+[a-z]{2,})?|d[1-9][0-9]{0,9}\.pii\.invalid)$/i;
// The tokens of IP addresses and of networks.
const ip4 = '(?:24[0-9]|25[0-4])(?:(?:\\.0){3}(?:/8)?|\\.(?:1[0-9][0-9]|2[0-3][0-9])(?:(?:\\.0){2}(?:/16)?|\\.(?:1[0-9][0-9]|2[0-3][0-9])(?:\\.0(?:/24)?|\\.[1-9][0-9]{0,2})?))';
const ip6 = '3fff:0?[1-9a-f][0-9a-f]{2}(?::[1-9a-f][0-9a-f]{3}){0,2}(?:(?:::|:0:0:0:|:0000:0000:0000:)[1-9a-f][0-9a-f]{3}|::(?:/[0-9]{2})?)?';
const secret = /^[a-zA-Z0-9._~-]{0,30}?pii_[1-9][0-9]{0,9}s$/; // behind the prefix of a service
const address = new NativeRegExp(`^(?:(?:::ffff:)?${ip4}|${ip6})$`, 'i');
const network = new NativeRegExp(`^(?:${ip4}|${ip6})[.:]{0,2}$`, 'i');
// Natural tokens at a place, by their first sign.
const naturalAt = {
  __proto__: null,
  p: /pii_[1-9][0-9]{0,9}(?:s|e(?:@(?:[a-z0-9-]+\.)+[a-z]{2,})?)/iy,
  d: /d[1-9][0-9]{0,9}\.pii\.invalid/iy,
  2: new NativeRegExp(ip4, 'iy'),
  3: new NativeRegExp(ip6, 'iy'),
};

const maxToken = 128;
const maxText = 4096; // characters of a text in which tokens are looked for
const maxBeginning = 240; // of them, those that are looked at: what comes then is much the same
const maxReach = 2_000; // characters of texts that are looked at beyond their beginnings
const maxNotes = 20;

const places = new NativeMap(); // type of tokens -> where the program has the first one from
const told = new NativeMap(); // method and type -> true
let watching = false;
let notes = 0;

const known = (kind) => mapGet(places, kind === 'IP_NETWORK' ? 'IP_ADDRESS' : kind) !== undefined;

let reach = maxBeginning; // how much of a text is looked at now

let lastText; // the last text that kindOf was asked of, and what it has answered
let lastKind;

// kindOf is the type of the token that a text is; undefined for any other value. Only types that the host has named are those of tokens.
function kindOf(text) {
  if (typeof text !== 'string' || text.length > maxToken || text.length < 5) return undefined;
  if (text !== lastText) {
    lastText = text;
    lastKind = readKind(text);
  }
  return lastKind;
}

function readKind(text) {
  let kind;
  if (isSecret(text)) return known('SECRET') ? 'SECRET' : undefined;
  switch (charCodeAt(text, 0) | 0x20) {
    case 0x7b: // [
      if (charCodeAt(text, text.length - 1) === 0x5d) kind = regExpExec(bracketed, text)?.[1];
      break;
    case 0x70: case 0x64: // p, d
      if (test(natural, text)) kind = 'EMAIL';
      break;
    case 0x32: case 0x33: case 0x3a: // 2, 3, :
      if (test(address, text)) kind = 'IP_ADDRESS';
  }
  return kind !== undefined && known(kind) ? kind : undefined;
}

const isSecret = (text) => charCodeAt(text, text.length - 1) === 0x73 && test(secret, text);

const isNatural = (text) => charCodeAt(text, 0) !== 0x5b;

// hasPlain reports whether the domain in the token of an address stands there as itself: the program has named it.
const hasPlain = (text) => strIndexOf(text, '@') > 0 && !test(/@d[1-9][0-9]*\.pii\.invalid$/i, text);

// edges has the offsets at which a natural token may be parted: each part stands for one of the value.
function edges(text) {
  const all = list();
  push(all, 0, text.length);
  if (isSecret(text)) {
    push(all, strIndexOf(text, 'pii_'));
    return all;
  }
  const at = strIndexOf(text, '@');
  if (at >= 0) {
    push(all, at, at + 1);
    if (hasPlain(text)) for (let i = at + 2; i < text.length; i++) push(all, i);
    return all;
  }
  let end = strIndexOf(text, '/');
  if (end >= 0) push(all, end, end + 1);
  else end = text.length;
  const m = regExpExec(/^(3fff:[0-9a-f]{3,4})(:[0-9a-f]{4})?(:[0-9a-f]{4})?(::|:0:0:0:|:0000:0000:0000:)?/i, text);
  if (m !== null) {
    for (let i = 1, to = 0; i < 5 && m[i] !== undefined; i++) push(all, to += m[i].length, to + 1);
    return all;
  }
  if (startsWith(text, ':')) push(all, '::ffff:'.length);
  const dot = lastIndexOf(strSlice(text, 0, end), '.');
  if (test(/^[^.]+(?:\.[1-9][0-9]{2}){2}\.[0-9]+(?:\/24)?$/, text)) push(all, dot, dot + 1);
  return all;
}

// begins has where natural tokens of the beginning of a text may begin, in order. Expressions take too long for that.
function begins(text) {
  const all = list();
  if (text.length > maxText) return all;
  const addresses = known('IP_ADDRESS');
  const mails = known('EMAIL');
  const under = mails || known('SECRET') ? '_' : undefined;
  for (let u = next(text, under, 0), dot = next(text, mails || addresses ? '.' : undefined, 0); u < reach || dot < reach;) {
    if (u < dot) {
      if (u >= 3 && (charCodeAt(text, u - 1) | 0x20) === 0x69) push(all, u - 3);
      u = next(text, under, u + 1);
      continue;
    }
    if (addresses && dot >= 3 && text[dot - 3] === '2' && (text[dot - 2] === '4' || text[dot - 2] === '5')) push(all, dot - 3);
    if (mails && (charCodeAt(text, dot + 1) | 0x20) === 0x70) {
      let from = dot - 1;
      while (from > 0 && charCodeAt(text, from) >= 0x30 && charCodeAt(text, from) <= 0x39) from--;
      if (from < dot - 1) push(all, from);
    }
    dot = next(text, '.', dot + 1);
  }
  if (!addresses || !strIncludes(text, '3fff:') && !strIncludes(text, '3FFF:')) return all;
  for (let i = next(text, '3fff:', 0); i < reach; i = next(text, '3fff:', i + 1)) push(all, i);
  for (let i = next(text, '3FFF:', 0); i < reach; i = next(text, '3FFF:', i + 1)) push(all, i);
  return sort(all, (a, b) => a - b);
}

// next is where a sign is next in a text; too far for none.
function next(text, sign, from) {
  const at = sign === undefined ? -1 : strIndexOf(text, sign, from);
  return at < 0 ? maxText : at;
}

// partsOf has the natural tokens of a text, each with where it begins and its edges.
function partsOf(text) {
  const all = list();
  const whole = kindOf(text);
  if (whole !== undefined) {
    if (isNatural(text)) push(all, { __proto__: null, start: 0, text, kind: whole, edges: edges(text) });
    return all;
  }
  const at = begins(text);
  for (let i = 0, end = 0; i < at.length; i++) {
    if (at[i] < end) continue;
    const sign = text[at[i]];
    const re = naturalAt[sign] ?? naturalAt[toLowerCase(sign)];
    if (re === undefined) continue;
    re.lastIndex = at[i];
    const m = regExpExec(re, text);
    if (m === null) continue;
    end = at[i] + m[0].length;
    const kind = sign === '2' || sign === '3' ? 'IP_ADDRESS' : isSecret(m[0]) ? 'SECRET' : 'EMAIL';
    if (!known(kind)) continue;
    let start = at[i];
    if (kind === 'SECRET') while (start > 0 && at[i] - start < 30 && test(/[a-zA-Z0-9._~-]/, text[start - 1])) start--; // with the prefix of its service
    const token = strSlice(text, start, end);
    push(all, { __proto__: null, start, text: token, kind, edges: edges(token) });
  }
  return all;
}

// cut is the natural token of a text that a part of the text begins or ends in, where no part of the token does.
function cut(tokens, from, to) {
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (parts(token, from) || parts(token, to)) return token;
  }
  return undefined;
}

const parts = (token, at) => at > token.start && at < token.start + token.text.length && !has(token.edges, at - token.start);

function has(items, item) {
  for (let i = 0; i < items.length; i++) if (items[i] === item) return true;
  return false;
}

// again is a copy of an expression, or a pattern for a text, whose matches are all found, and that no program knows.
function again(pattern, flags) {
  const source = regExpSource(pattern);
  const key = `${flags} ${source}`;
  let copy = mapGet(copies, key);
  if (copy === undefined) {
    if (mapSize(copies) >= maxCopies) mapClear(copies);
    copy = new NativeRegExp(source, flags);
    mapSet(copies, key, copy);
  }
  copy.lastIndex = 0;
  return copy;
}

const copies = new NativeMap(); // flags and source -> expression
const maxCopies = 200;

let counts = new NativeMap(); // method and pattern -> how many texts it was looked at with
const maxOften = 4;

// often reports whether a method has been looked at with a pattern for long enough: a program does the same with each row.
function often(method, pattern) {
  const key = `${method} ${typeof pattern === 'string' ? pattern : regExpSource(pattern)}`;
  const count = mapGet(counts, key) ?? 0;
  if (count >= maxOften) return true;
  if (mapSize(counts) < maxCopies) mapSet(counts, key, count + 1);
  return false;
}

// decoys are addresses as others have them: an expression that says the same of all of them says it of a value too.
const decoys = {
  __proto__: null,
  EMAIL: ['a@b.co', 'ada.lovelace@mail.example.com', 'JOHN_DOE-99+x@GMAIL.COM', 'no-reply@example.org'],
  IP_ADDRESS: ['10.1.2.3', '192.168.20.130', '172.16.254.1', '127.0.0.1', '8.8.8.8', '203.0.113.255', '1.2.3.4', '99.100.101.102'],
  IP6: ['2001:db8::1', '::1', 'fe80::1ff:fe23:4567:890a', 'fd00:0:0:0:1:2:3:4', '2A02:26F0:1234::1:2'],
};

// sure reports whether what an expression says of a token holds for each value: that it matches, or that it does not.
function sure(kind, text, pattern, found) {
  if (!isRegExp(pattern) || kind === 'SECRET') return false;
  const source = regExpSource(pattern);
  if (hasPlain(text) && test(/^@/, source)) return true;
  // A word in an expression may be in a value, whatever others have.
  if (!found && test(/[a-z0-9]/i, replaceAll(/\\[a-z]|\\u[0-9a-f]{4}|\[[^\]]*\]|\{[0-9,]*\}|\(\?(?:<[a-z]+>|:|=|!)/gi, source))) return false;
  const re = again(pattern, replaceAll(/[gy]/g, regExpFlags(pattern)));
  const others = kind === 'EMAIL' ? decoys.EMAIL : strIncludes(text, ':') ? decoys.IP6 : decoys.IP_ADDRESS;
  const from = kind === 'EMAIL' && !strIncludes(text, '@') ? test(/^d/i, text) ? 1 : -1 : 0; // a domain, a first part, or all
  for (let i = 0; i < others.length; i++) {
    let other = others[i];
    if (from !== 0) other = from > 0 ? strSlice(other, strIndexOf(other, '@') + 1) : strSlice(other, 0, strIndexOf(other, '@'));
    if (test(re, other) !== found) return false;
  }
  return true;
}

// samples are values as others have them, two of a type, in whose place a text is looked at once more.
const samples = {
  __proto__: null,
  EMAIL: ['ada.lovelace@mail.example.com', 'JOHN-99+x@GMAIL.COM'],
  IP_ADDRESS: ['110.120.130.7', '192.168.100.99'],
  IP6: ['2001:db8::1', 'fd00:0:0:0:1:2:3:4'],
  CREDIT_CARD: ['4111 1111 1111 1111', '5500000000000004'],
  PHONE: ['+44 20 7946 0958', '(202) 555-0143'],
  US_SSN: ['219-09-9999', '219099999'],
  IBAN: ['DE89370400440532013000', 'GB29 NWBK 6016 1331 9268 19'],
  NAME: ['Ada Lovelace', 'Grace M. Hopper'],
  ADDRESS: ['12 High Street, London', 'Hauptstr. 5'],
  SECRET: ['sk_live_4eC39HqLyjWDarjtT1zdp7dc', 'hunter2!'],
  MAC: ['00:1b:44:11:3a:b7', '00-1B-44-11-3A-B7'],
  other: ['AB-123456', '1234567890'],
};

// sampleOf is what stands in place of a token.
function sampleOf(token, n) {
  const { kind, text } = token;
  if (kind === 'IP_ADDRESS' && strIndexOf(text, ':') >= 0) return samples.IP6[n];
  const sample = (samples[kind] ?? samples.other)[n];
  if (kind !== 'EMAIL' || text[0] === '[' || strIndexOf(text, '@') >= 0) return sample;
  return test(/^d/i, text) ? strSlice(sample, strIndexOf(sample, '@') + 1) : strSlice(sample, 0, strIndexOf(sample, '@'));
}

// tokensOf has all tokens of a text, those in brackets with no edge but the ends.
function tokensOf(text) {
  const natural = partsOf(text);
  if (text.length > maxText || strIndexOf(text, '[') < 0) return natural;
  const all = list();
  let next = 0;
  bracketedIn.lastIndex = 0;
  for (let m; (m = regExpExec(bracketedIn, text)) !== null;) {
    if (!known(m[1])) continue;
    for (; next < natural.length && natural[next].start < m.index; next++) push(all, natural[next]);
    push(all, { __proto__: null, start: m.index, text: m[0], kind: m[1], edges: list() });
  }
  for (; next < natural.length; next++) push(all, natural[next]);
  return all;
}

let left = 0; // how many texts are looked at with samples

// differs is a token of a longer text of which a pattern finds other parts than it finds of values. The first texts are looked at to their ends, of others
// only the beginnings.
function differs(method, text, pattern) {
  if (typeof text !== 'string' || left <= 0 || !(typeof pattern === 'string' && pattern !== '' || isRegExp(pattern))) return undefined;
  if (often(method, pattern)) return undefined;
  if (text.length > maxBeginning && text.length <= min(maxText, beyond)) {
    beyond -= text.length;
    reach = text.length;
  }
  try {
    return unequal(text, pattern);
  } finally {
    reach = maxBeginning;
  }
}

let beyond = maxReach;

// unequal is differs for as much of a text as is looked at.
function unequal(text, pattern) {
  text = beginning(text);
  const tokens = tokensOf(text);
  if (tokens.length === 0) return undefined;
  left--;
  const re = typeof pattern === 'string' ? pattern : again(pattern, `${replaceAll(/[gy]/g, regExpFlags(pattern))}g`);
  const here = spansOf(re, text);
  for (let n = 0; n < 2; n++) {
    let other = '';
    let from = 0;
    const moved = list(); // where the samples begin, in the other text
    const lengths = list(); // of samples
    for (let i = 0; i < tokens.length; i++) {
      const sample = sampleOf(tokens[i], n);
      other += strSlice(text, from, tokens[i].start);
      push(moved, other.length);
      push(lengths, sample.length);
      other += sample;
      from = tokens[i].start + tokens[i].text.length;
    }
    const there = spansOf(re, other + strSlice(text, from));
    for (let i = 0, at = 0, last = -1; i < max(here.length, there.length); i++) {
      while (i < here.length && last + 1 < tokens.length && tokens[last + 1].start < here[i]) last++;
      const to = i < here.length ? move(here[i], tokens[last], moved[last], lengths[last], n) : undefined;
      // The token is the last one before the place that differs, or the first one.
      if (to !== undefined && i < there.length && there[i] === to) continue;
      while (at + 1 < tokens.length && moved[at + 1] <= (there[i] ?? to)) at++;
      return tokens[at];
    }
  }
  return undefined;
}

// beginning is what is looked at of a text. It ends with no token.
const beginning = (text) => (text.length <= reach ? text : replace(/[^\s,;|]*$/g, strSlice(text, 0, reach), () => ''));

// spansOf has where the matches of an expression, or the places of a text, begin and end: two numbers for each, of the first fifty.
function spansOf(re, text) {
  const all = list();
  if (typeof re === 'string') {
    for (let at = strIndexOf(text, re); at >= 0 && all.length < 100; at = strIndexOf(text, re, at + re.length)) push(all, at, at + re.length);
    return all;
  }
  re.lastIndex = 0;
  for (let m; all.length < 100 && (m = regExpExec(re, text)) !== null;) {
    push(all, m.index, m.index + m[0].length);
    if (m[0] === '') re.lastIndex++;
  }
  return all;
}

// move is a place of a text where a sample stands in place of the last token that begins before it, if there is one; -1 for a place in a token that the
// sample has not.
function move(at, token, moved, length, n) {
  if (token === undefined) return at;
  const end = token.start + token.text.length;
  if (at >= end) return at - end + moved + length;
  const sign = token.kind === 'EMAIL' ? '@' : '.';
  const edge = lastIndexOf(token.text, sign);
  const of = at - token.start - edge;
  return has(token.edges, at - token.start) && edge >= 0 && (of === 0 || of === 1) ? moved + lastIndexOf(sampleOf(token, n), sign) + of : -1;
}

const replaceAll = (re, text) => replace(re, text, () => '');

function isRegExp(value) {
  if (typeof value !== 'object' || value === null) return false;
  try {
    regExpSource(value);
    return value !== NativeRegExp.prototype;
  } catch {
    return false;
  }
}

const first = () => ({ __proto__: null, text: '', kind: '' });

// countIn counts the tokens in brackets of a text. found, if given, gets the first one.
function countIn(text, found) {
  if (typeof text !== 'string' || text.length > maxText || strIndexOf(text, '[') < 0) return 0;
  let count = 0;
  bracketedIn.lastIndex = 0;
  for (let match; (match = regExpExec(bracketedIn, text)) !== null;) {
    if (!known(match[1])) continue;
    if (count++ === 0 && found) {
      found.text = match[0];
      found.kind = match[1];
    }
  }
  return count;
}

// line is where the program is now.
function line() {
  const at = frames(stackOf(callSite()));
  let from = strIndexOf(at, '/program.js:');
  from = from < 0 ? strIndexOf(at, ':') : from + '/program.js'.length;
  const match = regExpExec(/^:([0-9]+)/, strSlice(at, from < 0 ? at.length : from));
  return match === null ? '' : `, line ${match[1]}`;
}

const advice = {
  __proto__: null,
  part(kind) {
    switch (kind) {
      case 'CREDIT_CARD': case 'IBAN': case 'PHONE': case 'US_SSN': return 'a part of the token is none of the value: use pii.last4';
      case 'EMAIL': return 'a part of the token is none of the value: use pii.domain';
      case 'IP_ADDRESS': return 'a part of the token is none of the value, but for what a network begins with: use pii.network';
    }
    return 'a part of the token is none of the value';
  },
  match(kind) {
    switch (kind) {
      case 'PHONE': case 'IBAN': return 'it looks in the token, not in the value: use pii.country, pii.kind or pii.same';
      case 'EMAIL': return 'it looks in the token, not in the value: use pii.domain, pii.kind or pii.same';
      case 'IP_ADDRESS': return 'it looks in the token, not in the value: use pii.network, pii.kind or pii.same';
    }
    return 'it looks in the token, not in the value: use pii.kind or pii.same';
  },
  change: () => 'it changes the token, not the value',
  measure: () => 'it measures the token, not the value',
  order: () => 'it compares tokens, not values: pii.sortKey gives keys to group and sort by, pii.same tells equal ones',
  number: () => 'a token is no number: let the tool that has the value compute with it',
  bytes: () => 'it encodes the token, not the value',
};

// tell prints what a program does with a token, once for each method and type.
function tell(method, does, kind, token) {
  const key = `${method} ${kind}`;
  if (probing || notes >= maxNotes || mapGet(told, key)) return;
  mapSet(told, key, true);
  notes++;
  sendNote(`\`${method}\` on ${token} of ${mapGet(places, kind === 'IP_NETWORK' ? 'IP_ADDRESS' : kind)}${line()}: ${advice[does](kind)}`);
}

// took looks at what a method took of a text: from its offset from.
function took(method, text, part, from) {
  if (part === text || part === '' || typeof part !== 'string') return;
  const kind = kindOf(text);
  if (kind !== undefined && !isNatural(text)) {
    tell(method, 'part', kind, text);
    return;
  }
  const tokens = partsOf(text);
  const token = cut(tokens, from, from + part.length) ?? within(tokens, from, from + part.length);
  if (token !== undefined && !(part.length === text.length - 1 && from === 1 && kind === 'EMAIL')) { // what is behind the first letter
    tell(method, 'part', token.kind, token.text);
    return;
  }
  const found = first();
  if (kind !== undefined || countIn(text, found) === 0) return;
  const end = from + part.length;
  if (cuts(part)) tell(method, 'part', found.kind, found.text);
  else if (from === 0 && end >= 20 && end % 10 === 0 && text.length > end && countIn(part) > 0) tell(method, 'measure', found.kind, found.text);
}

// offset is where the part of a text begins that slice, substring or substr takes.
function offset(method, text, from, to) {
  from = isInteger(from) ? from : 0;
  if (method !== 'substring') return from < 0 ? max(0, text.length + from) : from;
  to = to === undefined ? text.length : isInteger(to) ? to : 0;
  return max(0, min(from, to));
}

// cuts reports whether a part begins or ends within a token.
const cuts = (part) => test(/^[A-Z0-9_]*_[0-9]*\]|\[[A-Z][A-Z0-9_]*$/, part);

// may reports whether a value of a natural token may have a text in it that the token does not have, or the other way round.
function may(kind, text, pattern) {
  if (kind === 'SECRET') return test(/[a-z0-9._~-]/i, pattern) && !startsWith(text, pattern) && !test(/^pii_[1-9][0-9]*s$/, pattern);
  if (kind === 'EMAIL') {
    if (test(/^@?(?:pii_|d)[1-9][0-9]*(?:e@?|\.pii\.invalid)/i, pattern)) return false;
    if (pattern[0] === '@' && hasPlain(text)) return false;
    if (pattern === '.') return !test(/invalid$/i, text);
    return test(/[a-z0-9._+-]/i, pattern) || charCodeAt(pattern, 0) > 0x7f;
  }
  if (test(/[^0-9a-f:.\/]|^[.:\/]$|^::ffff:$/i, pattern)) return false; // addresses of IPv4 in IPv6 begin as they are
  return !test(network, pattern);
}

// classOf tells of an expression with a token in brackets, which are a class of characters there, and reports whether there is one.
function classOf(method, pattern) {
  if (!isRegExp(pattern)) return false;
  const token = first();
  if (countIn(regExpSource(pattern), token) === 0) return false;
  tell(method, 'match', token.kind, token.text);
  return true;
}

// looked looks at a method that has looked for something in a text.
function looked(method, text, pattern, found) {
  if (classOf(method, pattern)) return;
  const kind = kindOf(text);
  if (kind !== undefined) {
    if (kindOf(pattern) !== undefined) { // a domain may be below another one, which tokens do not tell
      if (!found && (method === 'endsWith' || method === 'includes') && isNatural(text) && test(/^d[1-9]/i, pattern)) tell(method, 'match', kind, text);
      return;
    }
    if (pattern === '' || typeof pattern === 'string' && startsWith(pattern, '[')) return;
    if (kind === 'SECRET' && method === 'startsWith' && typeof pattern === 'string') { // the prefix of a service is the value's
      const prefix = strSlice(text, 0, strIndexOf(text, 'pii_'));
      if (!startsWith(pattern, prefix)) return;
    }
    if (method === 'endsWith' && typeof pattern === 'string' && hasPlain(text) && pattern.length < text.length - strIndexOf(text, '@')) return;
    if (isNatural(text) && (typeof pattern === 'string' ? !may(kind, text, pattern) : sure(kind, text, pattern, found))) return;
    if (typeof pattern === 'string' || isRegExp(pattern)) tell(method, 'match', kind, text);
  } else if (!found && typeof pattern === 'string') {
    const token = resembled(text, pattern);
    if (token !== undefined) tell(method, 'match', token.kind, token.text);
  } else if (!found) {
    const token = first();
    if (countIn(text, token) > 0) tell(method, 'match', token.kind, token.text);
    else unlike(method, text, pattern);
  } else if (isRegExp(pattern)) {
    unlike(method, text, pattern);
  }
}

// ofValues are texts that parts of values may be, by type.
const ofValues = {
  __proto__: null,
  EMAIL: /^[^\s@]*@[^\s@]*[a-z0-9][^\s@]*$|^(?:[a-z0-9-]+\.)+[a-z]{2,}$/i,
  IP_ADDRESS: /^[0-9]{1,3}\.[0-9.]*$|^[0-9a-f]{1,4}:[0-9a-f:]*$/i,
  PHONE: /^\+[0-9][0-9 ()-]*$|^[0-9][0-9 ()-]{5,}$/,
  CREDIT_CARD: /^[0-9][0-9 -]{3,}$/,
  IBAN: /^[A-Z]{2}[0-9]{2}[A-Z0-9 ]+$/i,
};

// resembled is the token of a longer text that a text which is not found there may be a part of the value of. The name of a domain may also stand in a text
// without tokens, such as a URL.
function resembled(text, pattern) {
  if (typeof text !== 'string') return undefined;
  if (kindOf(pattern) === 'EMAIL' && test(/^d[1-9]/i, pattern)) {
    return test(/[a-z0-9]\.[a-z]{2}/i, text) ? { __proto__: null, kind: 'EMAIL', text: pattern } : undefined;
  }
  if (tokensOf(pattern).length > 0) return undefined;
  const tokens = tokensOf(text);
  for (let i = 0; i < tokens.length; i++) {
    const { kind } = tokens[i];
    if (ofValues[kind] !== undefined && test(ofValues[kind], pattern) && !(hasPlain(tokens[i].text) && pattern[0] === '@')) return tokens[i];
  }
  return undefined;
}

// unlike looks at what a pattern finds in a longer text: it finds other parts of values.
function unlike(method, text, pattern) {
  if (kindOf(text) !== undefined || typeof pattern === 'string' && tokensOf(pattern).length > 0) return;
  const token = differs(method, text, pattern);
  if (token !== undefined) tell(method, 'match', token.kind, token.text);
}

let executed; // the last text that an expression was executed on: a program goes through its matches

// exec looks at what an expression has found.
function executes(method, pattern, text, result) {
  if (typeof text !== 'string' || text === executed) return;
  executed = text;
  if (result === null) {
    looked(method, text, pattern, false);
    return;
  }
  const kind = kindOf(text);
  if (kind !== undefined && !isNatural(text)) {
    looked(method, text, pattern, true);
    return;
  }
  matched(method, text, pattern, 'part', true);
  unlike(method, text, pattern);
}

// matched looks at the matches of an expression in a text, and at their groups, if a program takes them.
function matched(method, text, pattern, does, groups) {
  if (classOf(method, pattern)) return;
  if (typeof text !== 'string' || text.length > maxText || !isRegExp(pattern)) return;
  const tokens = partsOf(text);
  if (tokens.length === 0 || often(`${method} ${does}`, pattern)) return;
  const flags = replaceAll(/[gdy]/g, regExpFlags(pattern));
  const re = again(pattern, `${flags}gd`);
  const all = strIncludes(regExpFlags(pattern), 'g');
  for (let m, n = 0; n < 100 && (m = regExpExec(re, text)) !== null; n++) {
    for (let i = 0; i < m.indices.length; i++) {
      const span = m.indices[i];
      const token = span === undefined || !groups && i > 0 ? undefined : cut(tokens, span[0], span[1]) ?? (does === 'part' ? within(tokens, span[0], span[1]) : undefined);
      if (token === undefined) continue;
      tell(method, does, token.kind, token.text);
      return;
    }
    if (!all) return;
    if (m[0] === '') re.lastIndex++;
  }
}

// within is the token of an IP address whose end a part of a text takes without its beginning: the last number is none of the value.
function within(tokens, from, to) {
  for (let i = 0; i < tokens.length; i++) {
    const { start, text, kind } = tokens[i];
    const slash = strIndexOf(text, '/');
    const end = start + (slash < 0 ? text.length : slash);
    if (kind === 'IP_ADDRESS' && from < to && from > start && from < end && from - start !== '::ffff:'.length && to > from + (text[from - start] === '.' || text[from - start] === ':' ? 1 : 0)) return tokens[i];
  }
  return undefined;
}

// changed looks at a text that a method has replaced parts of.
function changed(method, text, pattern, by, result) {
  const kind = kindOf(text);
  if (kind !== undefined && !isNatural(text)) {
    if (pattern !== text) tell(method, result === text ? 'match' : 'change', kind, text);
    return;
  }
  if (kind !== undefined && result === text) {
    looked(method, text, pattern, false);
    return;
  }
  if (typeof pattern === 'string') {
    const at = strIndexOf(text, pattern);
    const token = pattern === '' || at < 0 ? undefined : cut(partsOf(text), at, at + pattern.length);
    if (token !== undefined && result !== text) tell(method, 'change', token.kind, token.text);
    else if (at < 0 || method === 'replaceAll') unlike(method, text, pattern);
    return;
  }
  matched(method, text, pattern, 'change', typeof by === 'function' ? by.length > 1 : typeof by === 'string' && strIndexOf(by, '$') >= 0);
  if (kind !== undefined) return;
  unlike(method, text, pattern);
  const token = first();
  const count = countIn(text, token);
  if (count > 0 && result.length <= maxText && countIn(result) < count) tell(method, 'change', token.kind, token.text);
}

// lookers has, by class of methods, what looks at a call: of which method, on what, with what arguments and result.
const lookers = {
  __proto__: null,
  part: (method, text, from, to, result) => took(method, text, result, offset(method, text, from, to)),
  character(method, text, _, __, result) {
    const kind = kindOf(text);
    if (kind !== undefined && result !== '' && result !== undefined) tell(method, 'part', kind, text);
  },
  iterate(_, text) {
    const kind = kindOf(text);
    if (kind !== undefined) tell('[...text]', 'part', kind, text);
  },
  split(method, text, separator, _, result) {
    const kind = kindOf(text);
    if (separator === undefined || typeof text !== 'string') return;
    if (kind !== undefined && !isNatural(text)) {
      if (!isRow(kind, separator)) tell(method, 'part', kind, text);
      return;
    }
    if (kind !== undefined && result.length === 1) {
      looked(method, text, separator, false);
      return;
    }
    if (kind === undefined) unlike(method, text, separator);
    if (isRegExp(separator)) {
      matched(method, text, again(separator, `${replaceAll(/[gy]/g, regExpFlags(separator))}g`), 'part', true);
      return;
    }
    const tokens = typeof separator === 'string' && separator !== '' ? partsOf(text) : list();
    for (let i = 0, at = 0; tokens.length > 0 && i < result.length && at < maxBeginning; i++) {
      const token = cut(tokens, at, at + result[i].length) ?? within(tokens, at, at + result[i].length);
      if (token !== undefined) {
        tell(method, 'part', token.kind, token.text);
        return;
      }
      at += result[i].length + separator.length;
    }
    if (separator === '' && kind !== undefined) tell(method, 'part', kind, text);
  },
  match(method, text, pattern, _, result) {
    const found = result !== null && result !== false && result !== -1;
    const kind = kindOf(text);
    if (found && method === 'match' && isRegExp(pattern) && (kind === undefined || isNatural(text))) {
      matched(method, text, pattern, 'part', true);
      unlike(method, text, pattern);
    } else {
      looked(method, text, pattern, found);
    }
  },
  matchAll(method, text, pattern) {
    executed = text;
    matched(method, text, pattern, 'part', true);
    unlike(method, text, pattern);
  },
  test: (method, pattern, text, __, result) => (method === 'exec' ? executes(method, pattern, text, result) : looked(method, text, pattern, result)),
  replace: (method, text, pattern, by, result) => changed(method, text, pattern, by, result),
  change(method, text) {
    const kind = kindOf(text);
    if (kind !== undefined && (!isNatural(text) || kind === 'SECRET')) tell(method, 'change', kind, text);
  },
  measure(method, text) {
    const token = first();
    const kind = kindOf(text);
    if (kind !== undefined) tell(method, 'measure', kind, text);
    else if (countIn(text, token) > 0) tell(method, 'measure', token.kind, token.text);
  },
  order(method, text, other) {
    const kind = kindOf(text);
    if (kind !== undefined && text !== other) tell(method, 'order', kind, text);
  },
  sort(method, items, compare, _, result) {
    if (!isArray(result)) return;
    for (let i = 1, looks = 0; i < result.length && i < 100 && looks < maxPairs; i++) {
      const token = compare === undefined ? decides(result[i - 1], result[i]) : sways(compare, result[i - 1], result[i]);
      if (token === undefined) continue;
      looks++;
      if (token.text === '') continue;
      if (compare !== undefined && mapGet(told, `localeCompare ${token.kind}`)) return;
      tell(method, 'order', token.kind, token.text);
      return;
    }
  },
  number: (method, _, text) => tokenTo('number', method, text),
  bytes: (method, _, text) => tokenTo('bytes', method, text),
};

const maxPairs = 8; // neighbours of a sorted list that have tokens and are looked at

// decides is the token at the place where two texts differ first: its name decides which is first in a list. It is empty if another place decides, and
// undefined if the texts have no tokens.
function decides(a, b) {
  if (typeof a !== 'string' || typeof b !== 'string' || a === b) return undefined;
  const all = list();
  push(all, tokensOf(a), tokensOf(b));
  if (all[0].length === 0 && all[1].length === 0) return undefined;
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  for (let n = 0; n < 2; n++) {
    for (let i = 0; i < all[n].length; i++) if (at >= all[n][i].start && at < all[n][i].start + all[n][i].text.length) return all[n][i];
  }
  return first();
}

// sways is the token of two items whose name sways a function that compares them: with tokens of other numbers in their place, the order is the other way
// round. It is empty if there is none, and undefined if the items have no tokens.
function sways(compare, a, b) {
  const one = new NativeMap();
  const other = new NativeMap();
  const token = first();
  const orders = list();
  probing = true;
  try {
    for (let n = 0; n < 2; n++) {
      push(orders, compare(renamed(a, n === 0 ? one : other, n === 0 ? 1 : 2, token, 0), renamed(b, n === 0 ? one : other, n === 0 ? 2 : 1, token, 0)));
      if (token.text === '') return undefined;
    }
  } catch {
    return token.text === '' ? undefined : first();
  } finally {
    probing = false;
  }
  return orders[0] * orders[1] < 0 ? token : first();
}

let probing = false; // a function of the program is at work on tokens that there are not

// renamed is a copy of an item of a list, in which each token has another number, one of nine digits alike. found gets the first token.
function renamed(item, names, digit, found, depth) {
  if (typeof item === 'string') {
    const tokens = tokensOf(item);
    if (tokens.length === 0) return item;
    if (found.text === '') {
      found.text = tokens[0].text;
      found.kind = tokens[0].kind;
    }
    let out = '';
    let from = 0;
    for (let i = 0; i < tokens.length; i++) {
      const { start, text, kind } = tokens[i];
      if (mapGet(names, text) === undefined) mapSet(names, text, digit === 1 ? lower(text, kind) : higher(text, kind));
      out += strSlice(item, from, start) + mapGet(names, text);
      from = start + text.length;
    }
    return out + strSlice(item, from);
  }
  if (typeof item !== 'object' || item === null || depth > 2) return item;
  const copy = isArray(item) ? [] : create(getPrototypeOf(item));
  const keys = ownKeys(item);
  for (let i = 0; i < keys.length && i < 50; i++) {
    const descriptor = getOwnPropertyDescriptor(item, keys[i]);
    if (descriptor === undefined || !('value' in descriptor) || keys[i] === 'length') continue;
    defineProperty(copy, keys[i], { __proto__: null, value: renamed(descriptor.value, names, digit, found, depth + 1), writable: true, enumerable: true, configurable: true });
  }
  return copy;
}

// lower and higher are tokens of the same form as a token, of which the one is before the other.
const lower = (text, kind) => (kind === 'IP_ADDRESS' ? strIncludes(text, ':') ? '3fff:111:1111:1111::1111' : '240.111.111.111' : replace(/[1-9][0-9]*/g, text, () => '111111111'));
const higher = (text, kind) => (kind === 'IP_ADDRESS' ? strIncludes(text, ':') ? '3fff:999:9999:9999::9999' : '249.222.222.222' : replace(/[1-9][0-9]*/g, text, () => '999999999'));

// isRow reports whether a text of one token is a row of one column to the program. Values of other types than these have no such separators.
const isRow = (kind, separator) => kind !== 'NAME' && kind !== 'ADDRESS' && typeof separator === 'string' && test(/^[,;|\t\r\n]+$/, separator);

// tokenTo looks at a conversion: to a number, or to bytes.
export function tokenTo(does, method, text) {
  const kind = watching ? kindOf(text) : undefined;
  if (kind !== undefined) {
    tell(method, does, kind, text);
  } else if (watching && does === 'bytes' && typeof text === 'string') {
    const tokens = tokensOf(text);
    if (tokens.length > 0) tell(method, does, tokens[0].kind, tokens[0].text);
  }
}

const engines = list(); // the functions to watch, as they were before the program: what it has put in place of one is not watched

function remember(object, does, ...names) {
  for (let i = 0; i < names.length; i++) {
    const value = getOwnPropertyDescriptor(object, names[i])?.value;
    if (typeof value !== 'function') continue;
    push(engines, { __proto__: null, object, name: names[i], does, value, called: false, method: undefined, left: 0, looks: undefined });
  }
}

// rememberMethods notes what is watched later. It is called at boot, when all globals are there.
export function rememberMethods() {
  const { prototype } = String;
  remember(prototype, 'part', 'slice', 'substring', 'substr');
  remember(prototype, 'character', 'at', 'charAt', 'charCodeAt', 'codePointAt');
  remember(prototype, 'iterate', symbolIterator);
  remember(prototype, 'split', 'split');
  remember(prototype, 'matchAll', 'matchAll');
  remember(prototype, 'match', 'match', 'search', 'includes', 'indexOf', 'lastIndexOf', 'startsWith', 'endsWith');
  remember(prototype, 'replace', 'replace', 'replaceAll');
  remember(prototype, 'change', 'toUpperCase', 'toLowerCase', 'toLocaleUpperCase', 'toLocaleLowerCase');
  remember(prototype, 'measure', 'padStart', 'padEnd');
  remember(prototype, 'order', 'localeCompare');
  remember(RegExp.prototype, 'test', 'test', 'exec');
  remember(Array.prototype, 'sort', 'sort', 'toSorted');
  remember(global, 'number', 'parseInt', 'parseFloat');
  remember(global.Date, 'number', 'parse');
  remember(global, 'bytes', 'btoa');
  remember(global.Buffer, 'bytes', 'from');
  remember(global.TextEncoder.prototype, 'bytes', 'encode');
}

// Bounds of what is looked at from one answer with new tokens, or from the first call of another method, to the next. A program that goes through more
// rows than that does the same with each, and is not slowed down.
const maxCalls = 300; // calls of a method
const maxLooks = 8; // of them, those on a text with tokens, with the same argument; a text with other words counts as two
const maxArguments = 8; // different arguments
const maxSampled = 100; // texts that are looked at with samples

// inTexts has the classes of methods whose texts may have tokens among other words.
const inTexts = { __proto__: null, part: true, match: true, matchAll: true, split: true, replace: true, measure: true };

// mayBe is quick, and right where it says no: a text is no token, and has none if inText is set.
function mayBe(text, inText) {
  switch (text[0]) {
    case '[': case 'p': case 'P': case 'd': case 'D': case '2': case '3': case ':': return true;
  }
  if (text.length > maxText) return false;
  if (!inText) return text[text.length - 1] === 's' && strIncludes(text, 'pii_');
  if (text.length < 5) return false;
  if (strIncludes(text, '[') || strIncludes(text, 'pii') || strIncludes(text, 'PII')) return true;
  return known('IP_ADDRESS') && (strIncludes(text, '24') || strIncludes(text, '25') || strIncludes(text, '3fff:') || strIncludes(text, '3FFF:'));
}

let inside = 0; // watched methods at work, which may execute expressions themselves

// watch puts a function that looks in place of one of the engine's, until it has looked often enough.
function watch(entry) {
  const { object, name, does, value } = entry;
  entry.left = maxCalls;
  entry.looks = new NativeMap();
  const descriptor = getOwnPropertyDescriptor(object, name);
  if (descriptor === undefined || descriptor.value !== value || !descriptor.configurable) return;
  if (entry.method === undefined) {
    entry.method = does === 'order' || does === 'bytes' || does === 'sort' || does === 'test' || does === 'number' ? watched(entry) : watchedText(entry);
    hide(entry.method, value);
  }
  define(object, name, entry.method, false);
}

// unwatch puts the engine's function back.
function unwatch({ object, name, value, method }) {
  if (getOwnPropertyDescriptor(object, name)?.value === method) define(object, name, value, false);
}

// called begins anew when a method is called for the first time: the program does something else now.
function called(entry) {
  entry.called = true;
  watchNamed();
}

// look looks at a call, and ends the looking when it has been enough.
function look(entry, self, a, b, result) {
  if (entry.left <= 0) {
    unwatch(entry);
    return;
  }
  const argument = typeof a === 'string' || typeof a === 'number' ? a : isRegExp(a) ? regExpSource(a) : undefined;
  let looks = mapGet(entry.looks, argument);
  if (looks === undefined) looks = mapSize(entry.looks) < maxArguments ? maxLooks : 0;
  if (looks <= 0 || probing) return;
  const before = notes;
  looks -= kindOf(self) === undefined ? 2 : 1;
  lookers[entry.does](entry.name, self, a, b, result);
  mapSet(entry.looks, argument, notes > before ? looks - 4 : looks); // it is told once
}

// watchedText is a method of strings in place of the engine's. None has more than two parameters.
function watchedText(entry) {
  const { name, does, value } = entry;
  const call = uncurry(value);
  const inText = inTexts[does] === true;
  return {
    [name](a, b) {
      if (!entry.called) called(entry);
      let result;
      inside++;
      try {
        result = call(this, a, b);
      } finally {
        inside--;
      }
      if (--entry.left <= 0 || typeof this === 'string' && (mayBe(this, inText) || inText && typeof a === 'string' && a.length > 12 && mayBe(a, false))) look(entry, this, a, b, result);
      return result;
    },
  }[name];
}

// watched is any other function in place of the engine's.
function watched(entry) {
  const { name, value } = entry;
  return {
    [name](...args) {
      if (!entry.called) called(entry);
      let result;
      inside++;
      try {
        result = apply(value, this, args);
      } finally {
        inside--;
      }
      if (--entry.left <= 0 || name !== 'exec' || inside === 0) look(entry, this, args[0], args[1], result);
      return result;
    },
  }[name];
}

// watchNumber replaces Number by a function of the same shape, whose parseInt and parseFloat are watched like the global ones.
function watchNumber() {
  const constructor = getOwnPropertyDescriptor(toNumber.prototype, 'constructor');
  if (getOwnPropertyDescriptor(global, 'Number')?.value !== toNumber || constructor?.value !== toNumber || !constructor.configurable) return;
  let left = 1000; // calls with texts that are looked at
  const Number = function Number(...args) {
    if (left > 0 && typeof args[0] === 'string') {
      left--;
      tokenTo('number', 'Number', args[0]);
    }
    if (new.target === undefined) return args.length === 0 ? 0 : toNumber(args[0]);
    return construct(toNumber, args, new.target === Number ? toNumber : new.target);
  };
  const statics = ownKeys(toNumber);
  for (let i = 0; i < statics.length; i++) defineProperty(Number, statics[i], getOwnPropertyDescriptor(toNumber, statics[i]));
  define(toNumber.prototype, 'constructor', Number, false);
  hide(Number, toNumber);
  define(global, 'Number', Number, false);
  remember(Number, 'number', 'parseInt', 'parseFloat');
}

// hide makes a function look like the engine's that it stands for.
function hide(f, engine) {
  defineProperty(f, 'length', { __proto__: null, value: engine.length, configurable: true });
  hideSource(f);
  markNative(f);
}

// watchTokens begins to watch, or begins anew: from has, by type of tokens, where the program has got the first one from, and methods those that its code
// names; undefined for all.
export function watchTokens(from, methods) {
  if (from === undefined) return;
  const kinds = ownKeys(from);
  for (let i = 0; i < kinds.length; i++) if (mapGet(places, kinds[i]) === undefined) mapSet(places, kinds[i], from[kinds[i]]);
  left = maxSampled;
  beyond = maxReach;
  counts = new NativeMap();
  executed = undefined;
  watching = true;
  lastText = undefined;
  if (methods === undefined) namesAll = true;
  for (let i = 0; !namesAll && i < methods.length; i++) names[methods[i]] = true;
  watchNamed();
}

// watchAll watches all methods from now on: code has come that nobody has read for names.
export function watchAll() {
  namesAll = true;
  if (watching) watchNamed();
}

const names = { __proto__: null, [symbolIterator]: true }; // the methods that the program's code names
let namesAll = false;

function watchNamed() {
  if (namesAll || names.Number) watchNumber();
  for (let i = 0; i < engines.length; i++) if (namesAll || names[engines[i].name]) watch(engines[i]);
}
