// What Node's modules have and the sandbox has not.

import { define, NativeError, NativeRangeError, NativeTypeError } from '../intrinsics.js';
import { kindName } from '../tools.js';

// coded makes an error with a code, as Node's are.
export function coded(Kind, code, message) {
  const error = new Kind(message);
  define(error, 'code', code);
  return error;
}

// argument throws, in Node's words, unless an argument is what it must be.
export function argument(ok, name, wanted, value) {
  if (ok) return;
  throw coded(NativeTypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be ${wanted}. Received ${kindName(value)}`);
}

// range throws unless a number is where the rule wants it.
export function range(ok, name, rule, value) {
  if (!ok) throw coded(NativeRangeError, 'ERR_OUT_OF_RANGE', `The value of "${name}" is out of range. It must be ${rule}. Received ${value}`);
}

// refuse gives a module functions that say why they are not there, and what to do instead.
export function refuse(module, object, names, advice) {
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    define(object, name, () => {
      throw coded(NativeError, 'ERR_METHOD_NOT_IMPLEMENTED', `${module}.${name} is not available in the sandbox: ${advice}`);
    }, false);
  }
}

// aborted is the error of a wait that a signal ended.
export function aborted(signal) {
  const error = coded(NativeError, 'ABORT_ERR', 'The operation was aborted');
  define(error, 'name', 'AbortError', false);
  define(error, 'cause', signal.reason, false);
  return error;
}
