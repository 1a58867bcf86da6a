// DOMException, the same in every engine, and the functions of the engine that throw it.
import { apply, define, defineProperty, toStr } from '../intrinsics.js';
import { tag } from './shapes.js';

// The names that have a number, in the order of their numbers from 1 on (Web IDL, section 2.8.1).
const NAMES = ('IndexSizeError DOMStringSizeError HierarchyRequestError WrongDocumentError InvalidCharacterError ' +
  'NoDataAllowedError NoModificationAllowedError NotFoundError NotSupportedError InUseAttributeError InvalidStateError ' +
  'SyntaxError InvalidModificationError NamespaceError InvalidAccessError ValidationError TypeMismatchError SecurityError ' +
  'NetworkError AbortError URLMismatchError QuotaExceededError TimeoutError InvalidNodeTypeError DataCloneError').split(' ');

function make() {
  class DOMException extends Error {
    #code;
    constructor(message = '', options = 'Error') {
      const named = typeof options === 'object' && options !== null;
      super(toStr(message), named ? options : undefined);
      const name = toStr(named ? options.name ?? 'Error' : options);
      define(this, 'name', name, false);
      for (let i = 0; i < NAMES.length; i++) if (NAMES[i] === name) this.#code = i + 1;
    }

    get code() {
      return this.#code ?? 0;
    }
  }
  for (let i = 0; i < NAMES.length; i++) {
    const constant = `${NAMES[i].replace('Error', '').replace(/(?!^)([A-Z])(?=[a-z])/g, '_$1').toUpperCase()}_ERR`;
    const value = { __proto__: null, value: i + 1, enumerable: true };
    defineProperty(DOMException, constant, value);
    defineProperty(DOMException.prototype, constant, value);
  }
  tag(DOMException, 'DOMException');
  return DOMException;
}

export const DOMException = make();

// decoders makes atob and btoa of the engine's, which throw errors of its own.
export function decoders(native) {
  const wrapped = (f, message) => (text) => {
    text = toStr(text);
    try {
      return apply(f, undefined, [text]);
    } catch {
      throw new DOMException(message, 'InvalidCharacterError');
    }
  };
  const decode = wrapped(native.atob, 'The string to be decoded is not correctly encoded.');
  const encode = wrapped(native.btoa, 'Invalid character');
  return { atob: { atob(text) { return decode(text); } }.atob, btoa: { btoa(text) { return encode(text); } }.btoa };
}
