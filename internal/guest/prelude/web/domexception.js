// DOMException, for engines that have none of their own: a bare Node.js context.
import { define, defineProperty, toStr } from '../intrinsics.js';
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

export const DOMException = globalThis.DOMException ?? make();
