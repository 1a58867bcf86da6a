// What stands before the braces, or in their place, for functions, errors, dates, regular expressions and boxed values.

import {
  dateGetTime, dateToISOString, endsWith, functionToString, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, isArray,
  isNaN, list, push, regExpExec, regExpSource, startsWith, strIncludes, strIndexOf, strSlice, toStr, uncurry,
} from '../intrinsics.js';
import { inherits, isClass, isNative, peek, unbox } from '../brands.js';
import { frames, stackOf } from '../errors.js';
import { formatPrimitive } from './inspect.js';
import { prefix } from './names.js';
import { indent } from './strings.js';

const AsyncFunctionPrototype = getPrototypeOf(async () => {});
const GeneratorFunctionPrototype = getPrototypeOf(function* () {});
const AsyncGeneratorFunctionPrototype = getPrototypeOf(async function* () {});

export function functionBase(value, name, tag) {
  const source = functionToString(value);
  const written = regExpExec(/^class(?:\s|\{|\/\*|\/\/)/, source) !== null && endsWith(source, '}');
  if (!isNative(value) && (written || (isClass(value) && strIncludes(source, '[native code]')))) return classBase(value, name, tag);
  let type = 'Function';
  if (inherits(value, GeneratorFunctionPrototype)) type = 'GeneratorFunction';
  else if (inherits(value, AsyncFunctionPrototype)) type = 'AsyncFunction';
  else if (inherits(value, AsyncGeneratorFunctionPrototype)) type = 'AsyncGeneratorFunction';
  const called = peek(value, 'name');
  let base = `[${type}${name === null ? ' (null prototype)' : ''}`;
  base += typeof called !== 'string' || called === '' ? ' (anonymous)]' : `: ${called}]`;
  if (name !== type && name !== null) base += ` ${name}`;
  if (tag !== '' && tag !== name) base += ` [${tag}]`;
  return base;
}

function classBase(value, name, tag) {
  let base = `class ${(hasOwn(value, 'name') && peek(value, 'name')) || '(anonymous)'}`;
  if (name !== 'Function' && name !== null) base += ` [${name}]`;
  if (tag !== '' && tag !== name) base += ` [${tag}]`;
  if (name === null) return `[${base} extends [null prototype]]`;
  const parent = peek(getPrototypeOf(value), 'name');
  return parent ? `[${base} extends ${parent}]` : `[${base}]`;
}

// errorBase is the error's name, message and stack. keys loses what it already shows and gains cause and errors.
export function errorBase(ctx, value, name, tag, keys) {
  const ownName = peek(value, 'name');
  const message = peek(value, 'message');
  const title = ownName === undefined || ownName === null ? 'Error' : `${text(ownName)}`;
  const said = message === undefined || message === '' ? '' : text(message);
  const stack = stackOf(value);
  let head = said === '' ? title : title === '' ? said : `${title}: ${said}`;
  let trace = '';
  if (stack !== '') {
    trace = frames(stack);
    const at = firstFrame(stack);
    if (at > 0) head = strSlice(stack, 0, at - 1); // what the error was called when it was made
  }
  hideShown(keys, value, head);
  if (hasOwn(value, 'cause') && !has(keys, 'cause')) push(keys, 'cause');
  if (isArray(peek(value, 'errors')) && !has(keys, 'errors')) push(keys, 'errors');
  head = rename(head, title, name, tag);
  return indent(trace === '' ? `[${head}]` : `${head}\n${trace}`, ctx.indentation);
}

// text makes a string of an error's name or message, which may be anything, without running a toString.
const text = (value) => (typeof value === 'object' || typeof value === 'function' ? 'Error' : toStr(value));

// firstFrame is where the frames of a stack begin, or its length.
function firstFrame(stack) {
  if (startsWith(stack, '    at ')) return 0;
  const at = strIndexOf(stack, '\n    at ');
  return at < 0 ? stack.length + 1 : at + 1;
}

// rename puts a class's name where the error only has its parent's: "Error: x" of a class AppError is "AppError: x".
function rename(head, title, name, tag) {
  const regular = endsWith(title, 'Error') && startsWith(head, title) &&
    (head.length === title.length || head[title.length] === ':' || head[title.length] === '\n');
  if (name !== null && !regular) return head;
  let length = title.length;
  let fallback = 'Error';
  if (name === null) {
    const start = regExpExec(/^([A-Z][a-z_ A-Z0-9[\]()-]+)(?::|\n {4}at)/, head) ??
      regExpExec(/^([a-z_A-Z0-9-]*Error)$/, head);
    fallback = start ? start[1] : '';
    length = fallback.length;
    fallback = fallback || 'Error';
  }
  const lead = prefix(name, tag, fallback);
  const wanted = strSlice(lead, 0, lead.length - 1);
  if (title === wanted) return head;
  if (!strIncludes(wanted, title)) return `${wanted} [${title}]${strSlice(head, length)}`;
  return length === 0 ? `${wanted}: ${head}` : `${wanted}${strSlice(head, length)}`;
}

function hideShown(keys, value, head) {
  for (let i = keys.length - 1; i >= 0; i--) {
    if (keys[i] !== 'name' && keys[i] !== 'message' && keys[i] !== 'stack') continue;
    const shown = peek(value, keys[i]);
    if (keys[i] !== 'stack' && !(typeof shown === 'string' && strIncludes(head, shown))) continue;
    for (let j = i; j < keys.length - 1; j++) keys[j] = keys[j + 1];
    keys.length--;
  }
}

function has(keys, key) {
  for (let i = 0; i < keys.length; i++) if (keys[i] === key) return true;
  return false;
}

export function dateBase(value, name, tag) {
  const base = isNaN(dateGetTime(value)) ? 'Invalid Date' : dateToISOString(value);
  const lead = prefix(name, tag, 'Date');
  return lead === 'Date ' ? base : `${lead}${base}`;
}

const flagGetters = list();
for (const [flag, key] of [
  ['d', 'hasIndices'], ['g', 'global'], ['i', 'ignoreCase'], ['m', 'multiline'], ['s', 'dotAll'], ['u', 'unicode'],
  ['v', 'unicodeSets'], ['y', 'sticky'],
]) {
  const descriptor = getOwnPropertyDescriptor(RegExp.prototype, key);
  if (descriptor) push(flagGetters, { __proto__: null, flag, isSet: uncurry(descriptor.get) });
}

export function regExpBase(value, name, tag) {
  let base = `/${regExpSource(value)}/`;
  for (let i = 0; i < flagGetters.length; i++) {
    if (flagGetters[i].isSet(value)) base += flagGetters[i].flag;
  }
  const lead = prefix(name, tag, 'RegExp');
  return lead === 'RegExp ' ? base : `${lead}${base}`;
}

export function boxedBase(ctx, value, kind, name, tag) {
  let base = `[${kind}`;
  if (name !== kind) base += name === null ? ' (null prototype)' : ` (${name})`;
  base += `: ${formatPrimitive({ ...ctx, maxStringLength: Infinity, breakLength: Infinity }, unbox(value, kind))}]`;
  return tag !== '' && tag !== name ? `${base} [${tag}]` : base;
}
