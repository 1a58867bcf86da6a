// Modules made of MCP servers: import * as crm from './servers/crm'.

import {
  create, define, defineProperty, freeze, join, list, mapGet, mapSet, NativeError, NativeMap, NativeTypeError, push, startsWith,
  strSlice, symbolToStringTag,
} from './intrinsics.js';
import { makeProxy } from './brands.js';
import { closest, fold } from './names.js';
import { callTool } from './tools.js';

// Properties that JavaScript and libraries ask any object for: a module is no promise, no class, and has no toJSON.
const neverFunctions = {
  __proto__: null, then: true, toJSON: true, constructor: true, prototype: true, ['__proto__']: true, __esModule: true,
  toString: true, valueOf: true, toLocaleString: true, hasOwnProperty: true, isPrototypeOf: true,
  propertyIsEnumerable: true, $$typeof: true, nodeType: true, asymmetricMatch: true,
};

// isReserved says whether a property is undefined unless it is defined, and never a tool.
export function isReserved(key) {
  return typeof key === 'symbol' || neverFunctions[key] === true;
}

// serverNamespace makes the namespace of a server module. The functions are its own properties, under their camelCase
// names; its prototype is a proxy that finds them by other spellings, and throws for a name that is none.
export function serverNamespace(module, within) {
  const server = module.server;
  const exact = new NativeMap(); // tool name without the server's -> function
  const folded = new NativeMap(); // folded name -> list of {name, call}
  const names = list();

  const find = (key) => {
    const call = mapGet(exact, key);
    if (call) return call;
    const candidates = mapGet(folded, fold(key));
    if (!candidates) return undefined;
    if (candidates.length === 1) return candidates[0].call;
    const spelled = list();
    for (let i = 0; i < candidates.length; i++) push(spelled, `'${candidates[i].name}'`);
    throw new NativeTypeError(`'${key}' may be any of ${join(spelled, ', ')} of server '${server}': use the exact name`);
  };

  const fallback = makeProxy(create(null), {
    __proto__: null,
    get(_target, key) {
      if (isReserved(key)) return undefined;
      const call = find(key);
      if (call) return call;
      if (key === 'default') return namespace;
      throw new NativeTypeError(names.length === 0
        ? `server '${server}' has no tool '${key}': it has no tools`
        : `server '${server}' has no tool '${key}'; the closest are ${closest(key, names)}`);
    },
    has: (_target, key) => !isReserved(key) && find(key) !== undefined,
    set: () => false,
    defineProperty: () => false,
    setPrototypeOf: () => false,
  }, `[tools of server '${server}']`);

  const namespace = create(fallback);
  for (let i = 0; i < module.functions.length; i++) {
    const { name, tool } = module.functions[i];
    const call = (...args) => callTool(tool, undefined, args, new NativeError(''), within);
    defineProperty(call, 'name', { __proto__: null, value: name, configurable: true });
    const bare = startsWith(tool, `${server}__`) ? strSlice(tool, server.length + 2) : tool;
    mapSet(exact, bare, call);
    const key = fold(name);
    const candidates = mapGet(folded, key) ?? list();
    push(candidates, { __proto__: null, name: bare, call });
    mapSet(folded, key, candidates);
    push(names, name);
    // A module with a function then would be a thenable: await would call it.
    if (name !== 'then' && name !== 'toJSON' && name !== '__proto__') define(namespace, name, call);
  }
  // "./servers/crm/search" is a module of one function, which is its default export too.
  if (names.length === 1 && module.id !== `./servers/${server}`) define(namespace, 'default', namespace[names[0]]);
  define(namespace, symbolToStringTag, 'Module', false);
  return freeze(namespace);
}
