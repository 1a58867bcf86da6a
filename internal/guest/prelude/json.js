// Values of the program as JSON text: what it returns, and the arguments of its calls. It is JSON.stringify with the
// additions that programs expect (Map, Set, BigInt, Error), and with errors that name the place in the value.

import {
  apply, getPrototypeOf, hasOwn, isArray, isFinite, isSafeInteger, keys, list, mapDelete, mapForEach, mapGet, mapSet, NativeMap,
  NativeRangeError, NativeTypeError, ObjectPrototype, regExpExec, setForEach, toNumber, toStr, typedArrayLength,
} from './intrinsics.js';
import { bytesOf, kindOf, unbox } from './brands.js';
import { fits, quote } from './text.js';

// Deeper values are taken for a mistake; the engine's own stack would end a little later.
const maxDepth = 400;

// Where an encoding stands: out is the text so far, path the keys from the root, ancestors the objects on that path with
// their depth.
// Its members are fields, which are defined and not assigned: a setter on Object.prototype does not see them.
class Encoder {
  label;
  limit;
  out = '';
  path = list();
  ancestors = new NativeMap();

  constructor(label, limit) {
    this.label = label;
    this.limit = limit;
  }

  place(depth = this.path.length) {
    let text = this.label;
    for (let i = 0; i < depth; i++) {
      const key = this.path[i];
      if (typeof key === 'number') text += `[${key}]`;
      else text += isName(key) ? `.${key}` : `[${quote(key)}]`;
    }
    return text;
  }

  // value writes one value; it returns false, and writes nothing, for one that JSON leaves out.
  value(value, key) {
    if (value !== null && (typeof value === 'object' || typeof value === 'bigint')) {
      const toJSON = value.toJSON;
      if (typeof toJSON === 'function') value = apply(toJSON, value, [toStr(key)]);
    }
    switch (typeof value) {
      case 'string': this.write(quote(value)); return true;
      case 'number': this.write(isFinite(value) ? `${value}` : 'null'); return true;
      case 'boolean': this.write(value ? 'true' : 'false'); return true;
      case 'bigint': this.bigint(value); return true;
      case 'object': break;
      default: return false;
    }
    if (value === null) {
      this.write('null');
      return true;
    }
    const seenAt = mapGet(this.ancestors, value);
    if (seenAt !== undefined) {
      throw new NativeTypeError(`${this.place()} refers back to ${this.place(seenAt)}: JSON cannot hold a cycle; leave that property out`);
    }
    const depth = this.path.length;
    if (depth >= maxDepth) throw new NativeRangeError(`${this.label} is nested more than ${maxDepth} levels deep`);
    mapSet(this.ancestors, value, depth);
    this.object(value);
    mapDelete(this.ancestors, value);
    return true;
  }

  write(text) {
    this.out += text;
    if (this.limit && this.out.length > this.limit) this.tooLarge();
  }

  tooLarge() {
    throw new NativeRangeError(
      `${this.label} is more than ${this.limit} bytes as JSON: use a summary, or write the data to a file in /workspace and use its path`,
    );
  }

  bigint(value) {
    const number = toNumber(value);
    this.write(isSafeInteger(number) ? `${number}` : `"${value}"`);
  }

  object(value) {
    if (isArray(value)) {
      this.array(value.length, (i) => value[i]);
      return;
    }
    const prototype = getPrototypeOf(value);
    const kind = prototype === ObjectPrototype || prototype === null ? undefined : kindOf(value);
    switch (kind) {
      case 'Map': this.map(value); break;
      case 'Set': {
        const items = list();
        setForEach(value, (item) => { items[items.length] = item; });
        this.array(items.length, (i) => items[i]);
        break;
      }
      case 'Error': this.error(value); break;
      case 'Promise': throw new NativeTypeError(
        `${this.place()} is a Promise: await it first (await Promise.all([...]) for several)`,
      );
      case 'TypedArray': this.array(typedArrayLength(value), (i) => value[i]); break;
      case 'ArrayBuffer': {
        const bytes = bytesOf(value);
        this.array(typedArrayLength(bytes), (i) => bytes[i]);
        break;
      }
      case 'Number': case 'String': case 'Boolean': case 'BigInt': {
        mapDelete(this.ancestors, value);
        this.value(unbox(value, kind), '');
        break;
      }
      default: this.properties(value, keys(value), (key) => value[key]);
    }
  }

  array(length, item) {
    this.write('[');
    for (let i = 0; i < length; i++) {
      if (i > 0) this.write(',');
      this.path[this.path.length] = i;
      if (!this.value(item(i), i)) this.write('null');
      this.path.length--;
    }
    this.write(']');
  }

  properties(value, names, get) {
    this.write('{');
    let first = true;
    for (let i = 0; i < names.length; i++) {
      const before = this.out;
      this.write(`${first ? '' : ','}${quote(names[i])}:`);
      this.path[this.path.length] = names[i];
      if (this.value(get(names[i]), names[i])) first = false;
      else this.out = before;
      this.path.length--;
    }
    this.write('}');
  }

  // map becomes an object if all its keys are strings, else an array of pairs.
  map(value) {
    const names = list();
    const pairs = list();
    mapForEach(value, (item, key) => {
      if (typeof key === 'string') names[names.length] = key;
      pairs[pairs.length] = [key, item];
    });
    if (names.length === pairs.length) this.properties(value, names, (key) => mapGet(value, key));
    else this.array(pairs.length, (i) => pairs[i]);
  }

  // error becomes its name, message, cause and own properties; its stack is left out.
  error(value) {
    const names = list();
    names[0] = 'name';
    names[1] = 'message';
    if (hasOwn(value, 'cause')) names[2] = 'cause';
    if (hasOwn(value, 'errors')) names[names.length] = 'errors';
    const rest = keys(value);
    for (let i = 0; i < rest.length; i++) {
      const name = rest[i];
      if (name !== 'name' && name !== 'message' && name !== 'cause' && name !== 'errors' && name !== 'stack') names[names.length] = name;
    }
    this.properties(value, names, (key) => value[key]);
  }
}

function isName(key) {
  return regExpExec(/^[A-Za-z_$][\w$]*$/, key) !== null;
}

// encode returns value as JSON text. label names the value in errors ("output", "input"); limit is the most bytes it may
// have, 0 for any. What JSON has no text for (undefined, functions, symbols) is null.
export function encode(value, label, limit) {
  const encoder = new Encoder(label, limit);
  if (!encoder.value(value, '')) return 'null';
  if (!fits(encoder.out, limit)) encoder.tooLarge();
  return encoder.out;
}

// encodePlain returns what jsonParse returned as JSON text again. It consults own properties only.
export function encodePlain(value) {
  if (value === null || typeof value !== 'object') return typeof value === 'string' ? quote(value) : `${value}`;
  let text = '';
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) text += (i > 0 ? ',' : '') + encodePlain(value[i]);
    return `[${text}]`;
  }
  const names = keys(value);
  for (let i = 0; i < names.length; i++) text += `${i > 0 ? ',' : ''}${quote(names[i])}:${encodePlain(value[names[i]])}`;
  return `{${text}}`;
}
