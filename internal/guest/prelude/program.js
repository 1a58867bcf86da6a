// Running the program: its imports, its code, what it returns.

import { after, apply, list, NativePromise, own, push } from './intrinsics.js';
import { isClass, kindOf } from './brands.js';
import { compile } from './calls.js';
import { setLines } from './errors.js';
import { addModules, linkImport, programImport } from './modules.js';
import { expect, failed, setKind, succeeded } from './outcome.js';

// startProgram begins the program of a start frame. Its end comes to succeeded or failed.
export function startProgram(definition) {
  let code;
  try {
    setLines('program.js', own(definition, 'lines'));
    expect(own(definition, 'unreturned'));
    addModules(own(definition, 'modules') ?? list());
    code = compileProgram(own(definition, 'code') ?? '');
  } catch (error) {
    failed(error);
    return;
  }
  link(own(definition, 'imports') ?? list(), 0, list(), (namespaces) => {
    push(namespaces, programImport);
    settle(() => apply(code, undefined, namespaces), (value) => {
      // A program that is a function is called: its value is what that returns. A class cannot be called.
      if (typeof value === 'function' && !isClass(value)) settle(() => apply(value, undefined, []), succeeded);
      else succeeded(value);
    });
  });
}

function compileProgram(text) {
  try {
    return compile(text, 'program.js');
  } catch (error) {
    throw setKind(error, 'syntax');
  }
}

// link loads the imports from index on, in order, each after the one before, and passes their namespaces to done.
function link(imports, index, namespaces, done) {
  try {
    for (; index < imports.length; index++) {
      const linked = linkImport(imports[index]);
      if (linked.ready) {
        after(linked.ready, () => {
          try {
            push(namespaces, linked.namespace());
          } catch (error) {
            failed(error);
            return;
          }
          link(imports, index + 1, namespaces, done);
        }, failed);
        return;
      }
      push(namespaces, linked.namespace);
    }
  } catch (error) {
    failed(error);
    return;
  }
  done(namespaces);
}

// settle runs f and passes on what it, or the promise it returns, comes to. A promise is asked with the engine's own
// then: resolving another promise with it would look its then up, where the program may have put one of its own.
function settle(f, done) {
  let result;
  try {
    result = f();
    if (result !== null && typeof result === 'object' && kindOf(result) === 'Promise') {
      after(result, done, failed);
      return;
    }
  } catch (error) {
    failed(error);
    return;
  }
  after(new NativePromise((resolve) => resolve(result)), done, failed);
}
