// The modules of a run. Those that the host resolved beforehand come with the program; the rest are host calls. A module
// is evaluated once: as in Node, a file that is written again after it was loaded keeps its first text for this run.

import {
  after, apply, attempt, create, define, defineProperty, freeze, hasOwn, join, keys, list, mapGet, mapHas,
  mapSet, NativeError, NativeMap, NativePromise, NativeSyntaxError, NativeTypeError, own, startsWith, strSlice,
  symbolToStringTag,
} from './intrinsics.js';
import { markNamespace } from './brands.js';
import { builtin } from './builtins.js';
import { compile, request, requestSync } from './calls.js';
import { setLines } from './errors.js';
import { parse } from './exact.js';
import { setKind, setModule } from './outcome.js';
import { serverNamespace } from './servers.js';
import { watchAll } from './tokens.js';
import { globalsWithin, tools } from './tools.js';
import { quote, record } from './text.js';

const program = 'program.js';

// newSpace makes a space: modules by id (what each is, and how far it is), and the ids of imports by importing id, NUL, specifier. The program has one, and
// each promoted skill that is called has another one; within are then the skills whose code it is, the outermost first.
export const newSpace = (within) => ({ __proto__: null, modules: new NativeMap(), resolved: new NativeMap(), within, globals: undefined });
const main = newSpace();

// addModules takes definitions that the host sent. Ids that are here already keep theirs.
export function addModules(definitions, space = main) {
  const { modules } = space;
  for (let i = 0; i < definitions.length; i++) {
    const d = definitions[i];
    const id = own(d, 'id');
    if (mapHas(modules, id)) continue;
    setLines(id, own(d, 'lines'));
    mapSet(modules, id, {
      __proto__: null, id, space,
      kind: own(d, 'kind'), code: own(d, 'code') ?? '', async: own(d, 'async') === true, esm: own(d, 'esm') === true,
      deps: own(d, 'deps'), server: own(d, 'server'), functions: own(d, 'functions') ?? list(),
      module: undefined, // {exports} once evaluation has begun
      ready: undefined, // promise of an async module's evaluation
      namespace: undefined,
    });
  }
}

// known returns the id that a specifier stands for, if it takes no call to say.
function known(from, specifier, { modules, resolved }) {
  const deps = mapGet(modules, from)?.deps;
  const id = deps && own(deps, specifier);
  if (id !== undefined && mapHas(modules, id)) return id;
  if (mapHas(modules, specifier)) return specifier;
  return mapGet(resolved, `${from}\0${specifier}`);
}

function learn(from, specifier, answer, space) {
  addModules(own(answer, 'modules') ?? list(), space);
  watchAll(); // the host has read the names of the program's own modules only
  const id = own(answer, 'id');
  if (!mapHas(space.modules, id)) {
    throw new NativeError(`module '${specifier}' was resolved to '${id}', which the host did not send`);
  }
  mapSet(space.resolved, `${from}\0${specifier}`, id);
  return id;
}

const question = (from, specifier) => record('specifier', quote(specifier), 'from', quote(from));

function check(name, specifier) {
  if (typeof specifier === 'string' && specifier !== '') return;
  throw new NativeTypeError(`${name} takes the path of a module as a string`);
}

// requireFrom returns the require function of a module.
function requireFrom(from, space) {
  return function require(specifier) {
    check('require', specifier);
    const id = known(from, specifier, space) ??
      learn(from, specifier, requestSync('module', 'require', question(from, specifier)), space);
    return exportsOf(mapGet(space.modules, id));
  };
}

// importFrom returns the function that stands for import() in a module.
function importFrom(from, space) {
  return (specifier) => attempt(() => {
    const name = `${specifier}`; // as import() does
    check('import', name);
    const id = known(from, name, space);
    if (id !== undefined) return new NativePromise((resolve) => resolve(loadFrom(space, id)));
    return request('module', 'import', question(from, name), (answer) => loadFrom(space, learn(from, name, answer, space)));
  });
}

// loadFrom returns the namespace of a module of a space, or a promise of it while an async module is evaluated.
export function loadFrom(space, id) {
  const m = mapGet(space.modules, id);
  if (!m.async) return namespaceOf(m);
  evaluate(m);
  return new NativePromise((resolve, reject) => after(m.ready, () => resolve(namespaceOf(m)), reject));
}

// exportsOf is what require returns.
function exportsOf(m) {
  if (m.async) {
    throw new NativeError(`module ${m.id} uses top-level await: load it with await import('${m.id}') instead of require`);
  }
  if (m.kind === 'server') return namespaceOf(m);
  if (m.kind === 'builtin') return builtinOf(m);
  evaluate(m);
  return m.module.exports;
}

// evaluate runs a module's code the first time. In a cycle, a module that is being evaluated is left as far as it is; one
// that fails is run again the next time it is asked for.
function evaluate(m) {
  if (m.module) return;
  const module = { exports: {}, id: m.id, filename: m.id, loaded: false };
  m.module = module;
  try {
    if (m.kind === 'json') {
      module.exports = parse(m.code);
    } else {
      const code = compileModule(m);
      const result = apply(code, module.exports, [module.exports, requireFrom(m.id, m.space), module, importFrom(m.id, m.space)]);
      if (m.async) {
        m.ready = result;
        after(result, () => { module.loaded = true; }, (error) => forget(m, error));
        return;
      }
    }
    module.loaded = true;
  } catch (error) {
    throw forget(m, error);
  }
}

function forget(m, error) {
  m.module = m.ready = undefined;
  return setModule(error, m.id);
}

function compileModule(m) {
  try {
    const { space } = m;
    if (!space.within) return compile(m.code, m.id);
    space.globals ??= globalsWithin(space.within);
    return apply(compile(`(function(tools, callMCPTool) { return ${m.code}\n})`, m.id), undefined, [space.globals.tools, space.globals.callMCPTool]);
  } catch (error) {
    throw setKind(error, 'syntax');
  }
}

// namespaceOf returns what import * as gives: for an ES module its exports, for any other also the whole as default.
function namespaceOf(m) {
  if (m.namespace) return m.namespace;
  if (m.kind === 'server') return (m.namespace = serverNamespace(m, m.space.within));
  if (m.kind === 'builtin') {
    const exports = builtinOf(m);
    m.namespace = m.server === 'servers' ? toolsNamespace(exports) : namespaceFrom(exports, false);
    return m.namespace;
  }
  evaluate(m);
  const namespace = namespaceFrom(m.module.exports, m.esm);
  if (m.module.loaded) m.namespace = namespace; // in a cycle there may be more exports to come
  return namespace;
}

function builtinOf(m) {
  const exports = builtin(m.server);
  if (exports !== tools || !m.space.within) return exports;
  m.space.globals ??= globalsWithin(m.space.within);
  return m.space.globals.tools;
}

// toolsNamespace inherits from tools: to copy its names would take a call.
function toolsNamespace(tools) {
  const namespace = create(tools);
  define(namespace, 'default', tools);
  return namespace;
}

function namespaceFrom(exports, esm) {
  const namespace = markNamespace(create(null));
  const isObject = exports !== null && (typeof exports === 'object' || typeof exports === 'function');
  const names = isObject ? keys(exports) : list();
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (name === '__esModule' || (name === 'default' && !esm)) continue;
    defineProperty(namespace, name, { __proto__: null, get: () => exports[name], enumerable: true });
  }
  if (!esm) {
    const transpiled = isObject && exports.__esModule === true && hasOwn(exports, 'default');
    define(namespace, 'default', transpiled ? exports.default : exports);
  }
  define(namespace, symbolToStringTag, 'Module', false);
  return freeze(namespace);
}

// linkImport returns the namespace of one of the program's static imports, or a promise of it, once it is sure that the
// names that the program takes exist.
export function linkImport(item) {
  const id = own(item, 'module');
  const specifier = own(item, 'specifier') ?? id;
  const { modules, resolved } = main;
  if (!mapHas(modules, id)) throw new NativeError(`module '${specifier}' was not sent with the program`);
  mapSet(resolved, `${program}\0${specifier}`, id);
  const linked = (namespace) => {
    const names = own(item, 'names') ?? list();
    for (let i = 0; i < names.length; i++) {
      if (names[i] in namespace) continue;
      // A server's namespace throws here, naming the closest.
      if (mapGet(modules, id).kind === 'server' && namespace[names[i]] !== undefined) continue;
      const message = `module '${specifier}' has no export '${names[i]}'; ${exportsText(namespace)}`;
      throw setKind(new NativeSyntaxError(message), 'syntax');
    }
    return namespace;
  };
  const m = mapGet(modules, id);
  if (!m.async) return { __proto__: null, namespace: linked(namespaceOf(m)) };
  evaluate(m);
  return { __proto__: null, ready: m.ready, namespace: () => linked(namespaceOf(m)) };
}

function exportsText(namespace) {
  const names = keys(namespace);
  return names.length === 0 ? 'it exports nothing' : `it exports ${join(names, ', ')}`;
}

// programRequire and programImport are the program's own require and import().
export const programRequire = requireFrom(program, main);
export const programImport = importFrom(program, main);

// requireServer requires ./servers/<name>, and nothing else.
export function requireServer(path) {
  check('utils.requireServer', path);
  if (startsWith(path, '../servers/')) path = strSlice(path, 1);
  if (!startsWith(path, './servers/')) throw new NativeError(`'${path}' is not under ./servers/`);
  return programRequire(path);
}
