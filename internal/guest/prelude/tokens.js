// Telling a program, once each, where it does with a token what cannot work. A token such as [CREDIT_CARD_1] stands for a value that the program
// does not have: a part of it, a match in it, a number made of it is not that of the value. The methods are watched from the first answer with a
// token on, so that other programs pay nothing.

import {
  apply, charCodeAt, construct, define, defineProperty, endsWith, getOwnPropertyDescriptor, global, isArray, list, mapGet, mapSet, NativeMap, ownKeys,
  push, regExpExec, startsWith, strIndexOf, strSlice, symbolIterator, toNumber, uncurry,
} from './intrinsics.js';
import { markNative } from './brands.js';
import { sendNote } from './calls.js';
import { callSite, frames, stackOf } from './errors.js';
import { hideSource } from './sources.js';
import { test } from './text.js';

const bracketed = /^\[(?:PII_)?([A-Z][A-Z0-9_]*)_[1-9][0-9]{0,9}\]$/;
const bracketedIn = /\[(?:PII_)?([A-Z][A-Z0-9_]*)_[1-9][0-9]{0,9}\]/g;
const natural = /^(?:pii_[1-9][0-9]{0,9}e(?:@d[1-9][0-9]{0,9}\.pii\.invalid)?|d[1-9][0-9]{0,9}\.pii\.invalid)$/i;

const maxToken = 128;
const maxText = 4096; // characters of a text in which tokens are looked for
const maxNotes = 20;

const places = new NativeMap(); // type of tokens -> where the program has the first one from
const told = new NativeMap(); // method and type -> true
let watching = false;
let notes = 0;

// kindOf is the type of the token that a text is; undefined for any other value. Only types that the host has named are those of tokens.
function kindOf(text) {
  if (typeof text !== 'string' || text.length > maxToken || text.length < 5) return undefined;
  const first = charCodeAt(text, 0);
  let kind;
  if (first === 0x5b) {
    if (charCodeAt(text, text.length - 1) === 0x5d) kind = regExpExec(bracketed, text)?.[1];
  } else if (((first | 0x20) === 0x70 || (first | 0x20) === 0x64) && test(natural, text)) {
    kind = 'EMAIL';
  }
  return kind !== undefined && mapGet(places, kind) !== undefined ? kind : undefined;
}

const isNatural = (text) => charCodeAt(text, 0) !== 0x5b;

const first = () => ({ __proto__: null, text: '', kind: '' });

// countIn counts the tokens in brackets of a text. found, if given, gets the first one.
function countIn(text, found) {
  if (typeof text !== 'string' || text.length > maxText || strIndexOf(text, '[') < 0) return 0;
  let count = 0;
  bracketedIn.lastIndex = 0;
  for (let match; (match = regExpExec(bracketedIn, text)) !== null;) {
    if (mapGet(places, match[1]) === undefined) continue;
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
    }
    return 'a part of the token is none of the value';
  },
  match(kind) {
    switch (kind) {
      case 'PHONE': case 'IBAN': return 'it looks in the token, not in the value: use pii.country, pii.kind or pii.same';
      case 'EMAIL': return 'it looks in the token, not in the value: use pii.domain, pii.kind or pii.same';
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
  if (notes >= maxNotes || mapGet(told, key)) return;
  mapSet(told, key, true);
  notes++;
  sendNote(`\`${method}\` on ${token} of ${mapGet(places, kind)}${line()}: ${advice[does](kind)}`);
}

// took looks at what a method took of a text, up to an offset.
function took(method, text, part, end) {
  if (part === text || part === '' || part === undefined) return;
  const kind = kindOf(text);
  if (kind !== undefined) {
    if (!isNatural(text) || !isPart(text, part)) tell(method, 'part', kind, text);
    return;
  }
  const found = first();
  if (typeof part !== 'string' || countIn(text, found) === 0) return;
  if (cuts(part)) tell(method, 'part', found.kind, found.text);
  else if (end >= 20 && end % 10 === 0 && text.length > end && countIn(part) > 0) tell(method, 'measure', found.kind, found.text);
}

// isPart reports whether a program may well take a part from a natural token: one that stands for a part of the value, the first letter, or what
// is behind it.
function isPart(text, part) {
  if (part.length === 1 || part.length === text.length - 1) return startsWith(text, part) || endsWith(text, part);
  const at = strIndexOf(text, '@');
  return at >= 0 && (part === strSlice(text, 0, at) || part === strSlice(text, 0, at + 1) || part === strSlice(text, at) || part === strSlice(text, at + 1));
}

// cuts reports whether a part begins or ends within a token.
const cuts = (part) => test(/^[A-Z0-9_]*_[0-9]*\]|\[[A-Z][A-Z0-9_]*$/, part);

// looked looks at a method that has looked for something in a text, and did not find it.
function looked(method, text, pattern, found) {
  const kind = kindOf(text);
  if (kind !== undefined) {
    if (kindOf(pattern) !== undefined || typeof pattern === 'string' && startsWith(pattern, '[')) return;
    if (isNatural(text) && (found || typeof pattern === 'string' && (!test(/[a-z0-9]/i, pattern) || test(/pii/i, pattern)))) return; // a part of a token, or none
    tell(method, 'match', kind, text);
  } else if (!found && typeof pattern !== 'string') {
    const token = first();
    if (countIn(text, token) > 0) tell(method, 'match', token.kind, token.text);
  }
}

// changed looks at a text that a method has replaced parts of.
function changed(method, text, pattern, result) {
  const kind = kindOf(text);
  if (kind !== undefined) {
    if (pattern === text || isNatural(text) && result !== text) return;
    tell(method, result === text ? 'match' : 'change', kind, text);
    return;
  }
  if (typeof pattern === 'string') return;
  const token = first();
  const count = countIn(text, token);
  if (count > 0 && result.length <= maxText && countIn(result) < count) tell(method, 'change', token.kind, token.text);
}

// lookers has, by class of methods, what looks at a call: of which method, on what, with what arguments and result.
const lookers = {
  __proto__: null,
  part: (method, text, from, to, result) => took(method, text, result, from === 0 ? to : undefined),
  character(method, text, at, _, result) {
    const kind = kindOf(text);
    if (kind !== undefined && (!isNatural(text) || typeof result === 'number' || at > 0)) tell(method, 'part', kind, text);
  },
  iterate(_, text) {
    const kind = kindOf(text);
    if (kind !== undefined) tell('[...text]', 'part', kind, text);
  },
  split(method, text, separator, _, result) {
    const kind = kindOf(text);
    if (kind === undefined || separator === undefined) return;
    if (isNatural(text) ? result.length === 1 || result.length === 2 && isPart(text, result[0]) : isRow(kind, separator)) return;
    tell(method, 'part', kind, text);
  },
  match: (method, text, pattern, _, result) => looked(method, text, pattern, result !== null && result !== false && result !== -1),
  test: (method, _, text, __, result) => looked(method, text, undefined, result),
  replace: (method, text, pattern, _, result) => changed(method, text, pattern, result),
  change(method, text) {
    const kind = kindOf(text);
    if (kind !== undefined && !isNatural(text)) tell(method, 'change', kind, text);
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
  sort(method, items, compare) {
    if (compare !== undefined || !isArray(items) || items.length < 2) return;
    for (let i = 0; i < 2; i++) {
      const kind = kindOf(items[i]);
      if (kind !== undefined) tell(method, 'order', kind, items[i]);
    }
  },
  number: (method, _, text) => tokenTo('number', method, text),
  bytes: (method, _, text) => tokenTo('bytes', method, text),
};

// isRow reports whether a text of one token is a row of one column to the program. Values of other types than these have no such separators.
const isRow = (kind, separator) => kind !== 'NAME' && kind !== 'ADDRESS' && typeof separator === 'string' && test(/^[,;|\t\r\n]+$/, separator);

// tokenTo looks at a conversion: to a number, or to bytes.
export function tokenTo(does, method, text) {
  const kind = watching ? kindOf(text) : undefined;
  if (kind !== undefined) tell(method, does, kind, text);
}

const engines = list(); // the functions to watch, as they were before the program: what it has put in place of one is not watched

function remember(object, does, ...names) {
  for (let i = 0; i < names.length; i++) {
    const value = getOwnPropertyDescriptor(object, names[i])?.value;
    if (typeof value === 'function') push(engines, { __proto__: null, object, name: names[i], does, value, left: 0 });
  }
}

// rememberMethods notes what is watched later. It is called at boot, when all globals are there.
export function rememberMethods() {
  const { prototype } = String;
  remember(prototype, 'part', 'slice', 'substring', 'substr');
  remember(prototype, 'character', 'at', 'charAt', 'charCodeAt', 'codePointAt');
  remember(prototype, 'iterate', symbolIterator);
  remember(prototype, 'split', 'split');
  remember(prototype, 'match', 'match', 'search', 'includes', 'indexOf', 'lastIndexOf', 'startsWith', 'endsWith');
  remember(prototype, 'replace', 'replace', 'replaceAll');
  remember(prototype, 'change', 'toUpperCase', 'toLowerCase', 'toLocaleUpperCase', 'toLocaleLowerCase');
  remember(prototype, 'measure', 'padStart', 'padEnd');
  remember(prototype, 'order', 'localeCompare');
  remember(RegExp.prototype, 'test', 'test');
  remember(Array.prototype, 'sort', 'sort', 'toSorted');
  remember(global, 'number', 'parseInt', 'parseFloat');
  remember(global.Date, 'number', 'parse');
  remember(global, 'bytes', 'btoa');
  remember(global.Buffer, 'bytes', 'from');
  remember(global.TextEncoder.prototype, 'bytes', 'encode');
}

// maxLooks is how many calls of a method are looked at from one answer with new tokens to the next. A program that goes through more rows than that
// does the same with each, and is not slowed down.
const maxLooks = 500;

// within has the classes of methods whose texts may have tokens among other words.
const within = { __proto__: null, part: true, match: true, replace: true, measure: true };

// mayBe is quick, and right where it says no: a text is no token, and has none if inText is set.
const mayBe = (text, inText) => {
  switch (text[0]) {
    case '[': case 'p': case 'P': case 'd': case 'D': return true;
  }
  return inText && text.length <= maxText && strIndexOf(text, '[') >= 0;
};

// watch puts a function that looks in place of one of the engine's, until it has looked often enough.
function watch(entry) {
  const { object, name, does, value } = entry;
  entry.left = maxLooks;
  const descriptor = getOwnPropertyDescriptor(object, name);
  if (descriptor === undefined || descriptor.value !== value || !descriptor.configurable) return;
  const call = uncurry(value);
  const look = lookers[does];
  const inText = within[does] === true;
  const looks = (self, a, b, result) => {
    if (entry.left-- > 0) look(name, self, a, b, result);
    else if (getOwnPropertyDescriptor(object, name)?.value === method) define(object, name, value, false);
  };
  let methods;
  if (does === 'order' || does === 'bytes' || does === 'sort' || does === 'test' || does === 'number') {
    methods = {
      [name](...args) {
        const result = apply(value, this, args);
        looks(this, args[0], args[1], result);
        return result;
      },
    };
  } else { // no method of strings that is left has more than two parameters
    methods = {
      [name](a, b) {
        const result = call(this, a, b);
        if (entry.left <= 0 || typeof this === 'string' && mayBe(this, inText)) looks(this, a, b, result);
        else entry.left--;
        return result;
      },
    };
  }
  const method = methods[name];
  replaceBy(object, name, method, value);
}

// watchNumber replaces Number by a function of the same shape, whose parseInt and parseFloat are watched like the global ones.
function watchNumber() {
  const constructor = getOwnPropertyDescriptor(toNumber.prototype, 'constructor');
  if (getOwnPropertyDescriptor(global, 'Number')?.value !== toNumber || constructor?.value !== toNumber || !constructor.configurable) return;
  const Number = function Number(...args) {
    if (typeof args[0] === 'string') tokenTo('number', 'Number', args[0]);
    if (new.target === undefined) return args.length === 0 ? 0 : toNumber(args[0]);
    return construct(toNumber, args, new.target === Number ? toNumber : new.target);
  };
  const statics = ownKeys(toNumber);
  for (let i = 0; i < statics.length; i++) defineProperty(Number, statics[i], getOwnPropertyDescriptor(toNumber, statics[i]));
  define(toNumber.prototype, 'constructor', Number, false);
  replaceBy(global, 'Number', Number, toNumber);
  remember(Number, 'number', 'parseInt', 'parseFloat');
}

function replaceBy(object, name, f, engine) {
  defineProperty(f, 'length', { __proto__: null, value: engine.length, configurable: true });
  hideSource(f);
  markNative(f);
  define(object, name, f, false);
}

// watchTokens begins to watch, or begins anew: from has, by type of tokens, where the program has got the first one from.
export function watchTokens(from) {
  if (from === undefined) return;
  const kinds = ownKeys(from);
  for (let i = 0; i < kinds.length; i++) if (mapGet(places, kinds[i]) === undefined) mapSet(places, kinds[i], from[kinds[i]]);
  if (!watching) watchNumber();
  watching = true;
  for (let i = 0; i < engines.length; i++) watch(engines[i]);
}
