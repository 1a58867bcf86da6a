// The assert module: the checks that programs and skills' self-tests use.

import { apply, define, is, keys, NativeError, regExpExec, toStr } from '../intrinsics.js';
import { inherits, kindOf } from '../brands.js';
import { inspect } from '../inspect/inspect.js';
import { equal } from './equal.js';

class AssertionError extends NativeError {
  constructor(options) {
    super(options.message);
    define(this, 'generatedMessage', options.generated === true);
    define(this, 'code', 'ERR_ASSERTION');
    define(this, 'actual', options.actual);
    define(this, 'expected', options.expected);
    define(this, 'operator', options.operator);
  }
}
define(AssertionError.prototype, 'name', 'AssertionError', false);

function fail(message, text, actual, expected, operator) {
  if (message !== null && typeof message === 'object' && kindOf(message) === 'Error') throw message;
  const generated = message === undefined;
  throw new AssertionError({ message: generated ? text : toStr(message), generated, actual, expected, operator });
}

// comparison makes a check of two values; verb says in its message what they should have been.
const comparison = (operator, verb, test) => (actual, expected, message) => {
  if (test(actual, expected)) return;
  fail(message, `expected ${inspect(actual)} ${verb} ${inspect(expected)}`, actual, expected, operator);
};

// matches says whether what was thrown is what was expected: nothing, a class, an expression, an object or a function.
function matches(thrown, expected) {
  if (expected === undefined || typeof expected === 'string') return true;
  if (typeof expected === 'object' && kindOf(expected) === 'RegExp') return regExpExec(expected, toStr(thrown)) !== null;
  if (typeof expected === 'object') {
    const names = keys(expected);
    for (let i = 0; i < names.length; i++) {
      const key = names[i];
      const value = expected[key];
      const isExpression = value !== null && typeof value === 'object' && kindOf(value) === 'RegExp';
      if (isExpression ? regExpExec(value, toStr(thrown[key])) === null : !equal(thrown[key], value, true)) return false;
    }
    return true;
  }
  if (expected.prototype !== undefined && thrown instanceof expected) return true;
  if (inherits(expected, NativeError)) return false;
  return apply(expected, { __proto__: null }, [thrown]) === true;
}

function check(thrown, expected, message, operator) {
  if (!thrown) {
    const said = typeof expected === 'string' ? expected : message;
    fail(said, 'expected an exception, and none was thrown', undefined, expected, operator);
  }
  if (!matches(thrown.reason, expected)) throw thrown.reason;
}

export function assert(value, message) {
  if (!value) fail(message, `expected ${inspect(value)} to be truthy`, value, true, '==');
}

const isNot = (test) => (a, b) => !test(a, b);
const strictDeep = (a, b) => equal(a, b, true);
const looseDeep = (a, b) => equal(a, b, false);
const loose = (a, b) => a == b || (a !== a && b !== b); // NaN equals itself here, as in Node

const checks = {
  ok: (value, message) => assert(value, message),
  equal: comparison('==', 'to equal', loose),
  notEqual: comparison('!=', 'not to equal', isNot(loose)),
  strictEqual: comparison('strictEqual', 'to be strictly equal to', is),
  notStrictEqual: comparison('notStrictEqual', 'not to be strictly equal to', isNot(is)),
  deepEqual: comparison('deepEqual', 'to equal deeply', looseDeep),
  notDeepEqual: comparison('notDeepEqual', 'not to equal deeply', isNot(looseDeep)),
  deepStrictEqual: comparison('deepStrictEqual', 'to be deeply and strictly equal to', strictDeep),
  notDeepStrictEqual: comparison('notDeepStrictEqual', 'not to be deeply and strictly equal to', isNot(strictDeep)),
  match: comparison('match', 'to match', (text, expression) => regExpExec(expression, text) !== null),
  doesNotMatch: comparison('doesNotMatch', 'not to match', (text, expression) => regExpExec(expression, text) === null),
  fail: (message) => fail(message, 'Failed', undefined, undefined, 'fail'),
  throws(f, expected, message) {
    let thrown;
    try {
      f();
    } catch (reason) {
      thrown = { __proto__: null, reason };
    }
    check(thrown, expected, message, 'throws');
  },
  doesNotThrow(f, message) {
    try {
      f();
    } catch (reason) {
      fail(typeof message === 'string' ? message : undefined, `expected no exception; got ${inspect(reason)}`, reason, undefined, 'doesNotThrow');
    }
  },
  async doesNotReject(promise, message) {
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (reason) {
      fail(typeof message === 'string' ? message : undefined, `expected no rejection; got ${inspect(reason)}`, reason, undefined, 'doesNotReject');
    }
  },
  ifError(value) {
    if (value === null || value === undefined) return;
    fail(undefined, `ifError got unwanted exception: ${inspect(value)}`, value, null, 'ifError');
  },
  async rejects(promise, expected, message) {
    let thrown;
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (reason) {
      thrown = { __proto__: null, reason };
    }
    check(thrown, expected, message, 'rejects');
  },
  AssertionError,
};

// strict is assert whose loose checks are the strict ones.
function strict(value, message) {
  assert(value, message);
}
const strictly = {
  __proto__: null, equal: 'strictEqual', notEqual: 'notStrictEqual', deepEqual: 'deepStrictEqual', notDeepEqual: 'notDeepStrictEqual',
};
const names = keys(checks);
for (let i = 0; i < names.length; i++) {
  define(assert, names[i], checks[names[i]]);
  define(strict, names[i], checks[strictly[names[i]] ?? names[i]]);
}
define(assert, 'strict', strict);
define(strict, 'strict', strict);
