// What Node's modules have and the sandbox has not.

import { define, NativeError } from '../intrinsics.js';

// coded makes an error with a code, as Node's are.
export function coded(Kind, code, message) {
  const error = new Kind(message);
  define(error, 'code', code);
  return error;
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
