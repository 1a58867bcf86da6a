// Promoted skills as functions: tools.skills.<name>. The host answers the call of one with its code, which runs here, in a space of modules of its own. So the
// calls of a skill are calls of this run.

import { after, apply, create, join, keys, list, mapGet, mapSet, NativeError, NativeMap, NativePromise, own, push, startsWith } from './intrinsics.js';
import { request } from './calls.js';
import { parse } from './exact.js';
import { addModules, loadFrom, newSpace } from './modules.js';
import { fold } from './names.js';
import { watchAll } from './tokens.js';
import { quote } from './text.js';

const codes = new NativeMap(); // digest -> {id, modules}
const spaces = new NativeMap(); // skills and digests, the outermost first -> space
const digests = new NativeMap(); // server, NUL, name as written -> digest of the code that came last

// skillCall prepares a call that may be one of a skill: the host says whether it is. It returns nothing for a name that cannot be one. within and have are
// JSON texts for the frame of the call; the caller sets input, the JSON text of the input, if it has one.
export function skillCall(name, server, within) {
  const first = (server ?? name)[0];
  if (first !== 's' && first !== 'S') return undefined;
  if (server === undefined ? !startsWith(fold(name), 'skills') : fold(server) !== 'skills') return undefined;
  const key = `${server ?? ''}\0${name}`;
  const digest = mapGet(digests, key);
  let names;
  if (within) {
    names = '';
    for (let i = 0; i < within.length; i++) names += (i > 0 ? ',' : '') + quote(within[i]);
  }
  const call = {
    __proto__: null, input: undefined,
    within: names === undefined ? undefined : `[${names}]`,
    have: digest === undefined ? undefined : quote(digest),
    answered: (value, wire) => (wire.skill ? execute(value, wire.id, call.input, within, key) : value),
  };
  return call;
}

// execute calls the function of a skill with the code in an answer. The host learns when it has ended before the caller does.
function execute(answer, id, text, within, key) {
  const name = own(answer, 'name');
  const digest = own(answer, 'digest');
  const code = own(answer, 'code');
  if (code !== undefined) mapSet(codes, digest, code);
  mapSet(digests, key, digest);
  const changed = own(answer, 'input');
  return new NativePromise((resolve, reject) => {
    const end = (settle, value, failed) => {
      const done = () => settle(value);
      after(request('skill', 'end', `{"call":${id},"failed":${failed}}`), done, done);
    };
    const fail = (error) => end(reject, error, true);
    try {
      const input = changed === undefined ? parse(text) : changed;
      const { space, id: module } = spaceOf(name, digest, within);
      after(new NativePromise((loaded) => loaded(loadFrom(space, module))), (namespace) => {
        try {
          const result = apply(functionOf(namespace, name), undefined, [input]);
          after(new NativePromise((settled) => settled(result)), (value) => end(resolve, value, false), fail);
        } catch (error) {
          fail(error);
        }
      }, fail);
    } catch (error) {
      fail(error);
    }
  });
}

// spaceOf returns the space of the modules of a skill that is called within others. Calls at the same place share it.
function spaceOf(name, digest, within) {
  const path = list();
  for (let i = 0; within && i < within.length; i++) push(path, within[i]);
  push(path, name);
  const code = mapGet(codes, digest);
  const key = `${join(path, '\0')}\0${digest}`;
  let space = mapGet(spaces, key);
  if (space === undefined) {
    space = newSpace(path);
    addModules(own(code, 'modules') ?? list(), space);
    watchAll(); // the host has read the names of the program's own modules only
    mapSet(spaces, key, space);
  }
  return { __proto__: null, space, id: own(code, 'id') };
}

// functionOf returns the function that a call of a skill means: the default export, or the only function.
function functionOf(namespace, name) {
  if (typeof namespace.default === 'function') return namespace.default;
  const names = keys(namespace);
  let found;
  for (let i = 0; i < names.length; i++) {
    if (typeof namespace[names[i]] !== 'function') continue;
    if (found !== undefined) found = create(null);
    else found = namespace[names[i]];
  }
  if (typeof found !== 'function') throw new NativeError(`skill ${name} has to export one function, or a default one`);
  return found;
}
