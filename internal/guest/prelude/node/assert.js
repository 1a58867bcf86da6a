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

// comparison makes a check of two values; text makes its message, in Node's words, of what they print.
const comparison = (operator, test, text) => (actual, expected, message) => {
  if (test(actual, expected)) return;
  fail(message, text(inspect(actual), inspect(expected)), actual, expected, operator);
};
const beside = (kind) => (a, b) => `Expected values to be ${kind} deep-equal:\n\n${a}\n\nshould ${kind} deep-equal\n\n${b}`;
const unlike = (kind) => (a) => `Expected "actual" not to be ${kind} deep-equal to:\n\n${a}\n`;
const strictly = (a, b) => (a === b ? `Values have same structure but are not reference-equal:\n\n${a}\n`
  : `Expected values to be strictly equal:\n\n${a} !== ${b}\n`);

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
    const wanted = typeof expected === 'function' && expected.name ? ` (${toStr(expected.name)})` : '';
    fail(said, `Missing expected ${operator === 'rejects' ? 'rejection' : 'exception'}${wanted}.`, undefined, expected, operator);
  }
  if (!matches(thrown.reason, expected)) throw thrown.reason;
}

const unwanted = (what, reason) => `Got unwanted ${what}.\nActual message: "${toStr(reason?.message ?? inspect(reason))}"`;

export function assert(value, message) {
  if (!value) fail(message, `The expression evaluated to a falsy value:\n\n  assert(${inspect(value)})\n`, value, true, '==');
}

const isNot = (test) => (a, b) => !test(a, b);
const strictDeep = (a, b) => equal(a, b, true);
const looseDeep = (a, b) => equal(a, b, false);
const loose = (a, b) => a == b || (a !== a && b !== b); // NaN equals itself here, as in Node

const checks = {
  ok: (value, message) => assert(value, message),
  equal: comparison('==', loose, (a, b) => `${a} == ${b}`),
  notEqual: comparison('!=', isNot(loose), (a, b) => `${a} != ${b}`),
  strictEqual: comparison('strictEqual', is, strictly),
  notStrictEqual: comparison('notStrictEqual', isNot(is), (a) => `Expected "actual" to be strictly unequal to: ${a}`),
  deepEqual: comparison('deepEqual', looseDeep, beside('loosely')),
  notDeepEqual: comparison('notDeepEqual', isNot(looseDeep), unlike('loosely')),
  deepStrictEqual: comparison('deepStrictEqual', strictDeep, beside('strictly')),
  notDeepStrictEqual: comparison('notDeepStrictEqual', isNot(strictDeep), unlike('strictly')),
  match: comparison('match', (text, expression) => regExpExec(expression, text) !== null,
    (text, expression) => `The input did not match the regular expression ${expression}. Input:\n\n${text}\n`),
  doesNotMatch: comparison('doesNotMatch', (text, expression) => regExpExec(expression, text) === null,
    (text, expression) => `The input was expected to not match the regular expression ${expression}. Input:\n\n${text}\n`),
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
      fail(typeof message === 'string' ? message : undefined, unwanted('exception', reason), reason, undefined, 'doesNotThrow');
    }
  },
  async doesNotReject(promise, message) {
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (reason) {
      fail(typeof message === 'string' ? message : undefined, unwanted('rejection', reason), reason, undefined, 'doesNotReject');
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
const strictForms = {
  __proto__: null, equal: 'strictEqual', notEqual: 'notStrictEqual', deepEqual: 'deepStrictEqual', notDeepEqual: 'notDeepStrictEqual',
};
const names = keys(checks);
for (let i = 0; i < names.length; i++) {
  define(assert, names[i], checks[names[i]]);
  define(strict, names[i], checks[strictForms[names[i]] ?? names[i]]);
}
define(assert, 'strict', strict);
define(strict, 'strict', strict);
