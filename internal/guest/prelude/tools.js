// Tool calls: callMCPTool, tools.<server>.<tool>, and what the modules of servers call.

import {
  attempt, create, defineProperty, jsonParse, keys, list, mapGet, mapSet, NativeError, NativeMap, NativeTypeError, push, startsWith, toStr,
} from './intrinsics.js';
import { makeProxy } from './brands.js';
import { checkName, request, requestSync } from './calls.js';
import { encode } from './json.js';
import { fold } from './names.js';
import { run } from './run.js';
import { isReserved } from './servers.js';
import { skillCall } from './skills.js';
import { quote, record, replace } from './text.js';

// input is the arguments of a tool call. A single object is the input itself; anything else is positional, and the host
// fills the tool's properties with it.
function input(args, server, skill) {
  let count = args.length;
  while (count > 0 && args[count - 1] === undefined) count--;
  if (server !== undefined) checkName('server', server);
  const on = server === undefined ? undefined : quote(server);
  const frame = (kind, text) => record(kind, text, 'server', on, 'within', skill?.within, 'have', skill?.have);
  const whole = (text) => {
    if (skill) skill.input = text;
    return frame('input', text);
  };
  if (count === 0) return whole('{}');
  if (count === 1) {
    const text = encode(args[0], 'input', run.maxValue);
    if (startsWith(text, '{')) return whole(text);
    return frame('positional', `[${text}]`);
  }
  let text = '';
  for (let i = 0; i < count; i++) text += (i > 0 ? ',' : '') + encode(args[i], `argument ${i + 1}`, run.maxValue);
  return frame('positional', `[${text}]`);
}

// callTool calls a tool by name, or by its function's name on a server.
// site is an error made where the program called: making it further down costs more, as it names every function between. within are the skills in whose
// code the call is, the outermost first; nothing for the program's own calls.
export function callTool(name, server, args, site, within) {
  return attempt(() => {
    const skill = skillCall(name, server, within);
    return request('tool', name, input(args, server, skill), skill?.answered, undefined, site);
  });
}

function callByName(caller, name, value, raw, site, within) {
  return attempt(() => {
    if (typeof name !== 'string') {
      throw new NativeTypeError(
        `${caller} takes the tool's name as a string, like 'server__tool', and then its input; got ${kindName(name)}`,
      );
    }
    const text = value === undefined ? '{}' : encode(value, 'input', run.maxValue);
    const skill = skillCall(name, undefined, within);
    if (skill) skill.input = text;
    const args = record('input', text, 'raw', raw ? 'true' : undefined, 'within', skill?.within, 'have', skill?.have);
    return request('tool', name, args, skill?.answered, undefined, site);
  });
}

// kindName names a value's type for an error message.
export function kindName(value) {
  if (value === null) return 'null';
  return typeof value === 'object' ? 'an object' : typeof value === 'undefined' ? 'nothing' : `a ${typeof value}`;
}

// callerOf makes callMCPTool for code within skills.
function callerOf(within) {
  const call = (name, value) => callByName('callMCPTool', name, value, false, new NativeError(''), within);
  defineProperty(call, 'name', { __proto__: null, value: 'callMCPTool', configurable: true });
  defineProperty(call, 'raw', {
    __proto__: null, value: (name, value) => callByName('callMCPTool.raw', name, value, true, new NativeError(''), within), enumerable: true,
  });
  // callMCPTool.json calls a tool with input that is JSON text already, which is sent as it is: with its digits and its order of keys.
  defineProperty(call, 'json', {
    __proto__: null,
    value: (name, text, raw) => attempt(() => {
      encode(jsonParse(text), 'input', run.maxValue); // throws for what cannot be sent
      const input = replace(/[\r\n]+/g, text, () => ' '); // which are between its values only
      const skill = skillCall(toStr(name), undefined, within);
      if (skill) skill.input = input;
      const args = record('input', input, 'raw', raw ? 'true' : undefined, 'within', skill?.within, 'have', skill?.have);
      return request('tool', toStr(name), args, skill?.answered, undefined, new NativeError(''));
    }),
  });
  return call;
}

export const callMCPTool = callerOf();

// callHTTP calls a tool of the built-in server http for the program at site.
export function callHTTP(tool, value, site) {
  return request('tool', `http__${tool}`, record('input', encode(value, 'the request', run.maxValue)), undefined, undefined, site);
}

// The functions of every server by name, asked for once, and only when a program enumerates tools.
let catalog;

function functionsByServer() {
  catalog ??= requestSync('catalog', 'names', '{}');
  return catalog;
}

const serverNames = () => keys(functionsByServer());

function functionNames(server) {
  const all = functionsByServer();
  const names = keys(all);
  for (let i = 0; i < names.length; i++) {
    if (fold(names[i]) === fold(server)) return all[names[i]];
  }
  return list();
}

// dynamic makes an object whose every property is what make returns for its name, and which lists those of listed.
function dynamic(label, make, listed) {
  const made = new NativeMap();
  const get = (key) => {
    let value = mapGet(made, key);
    if (value === undefined) mapSet(made, key, value = make(key));
    return value;
  };
  const find = (key, same) => {
    const names = listed();
    for (let i = 0; i < names.length; i++) {
      if (same(names[i], key)) return true;
    }
    return false;
  };
  return makeProxy(create(null), {
    __proto__: null,
    get: (_target, key) => (isReserved(key) ? undefined : get(key)),
    has: (_target, key) => !isReserved(key) && find(key, (a, b) => fold(a) === fold(b)),
    ownKeys() {
      const names = listed();
      const copy = list();
      for (let i = 0; i < names.length; i++) push(copy, names[i]);
      return copy;
    },
    getOwnPropertyDescriptor(_target, key) {
      if (isReserved(key) || !find(key, (a, b) => a === b)) return undefined;
      return { __proto__: null, value: get(key), enumerable: true, configurable: true, writable: false };
    },
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
    preventExtensions: () => false,
    setPrototypeOf: () => false,
  }, label);
}

// tools.<server>.<tool>(input): every name gives a function, and the host says if there is no such tool.
const toolsOf = (within) => dynamic('[tools: Object.keys(tools) lists the servers]', (server) => dynamic(
  `[tools.${server}: Object.keys(tools.${server}) lists its functions]`,
  (name) => {
    const call = (...args) => callTool(name, server, args, new NativeError(''), within);
    defineProperty(call, 'name', { __proto__: null, value: name, configurable: true });
    return call;
  },
  () => functionNames(server),
), serverNames);

export const tools = toolsOf();

// globalsWithin are the globals of code within skills that call tools, so that the host knows how deep a call is.
export const globalsWithin = (within) => ({ __proto__: null, tools: toolsOf(within), callMCPTool: callerOf(within) });
