// Reads {program} (a frame.Program) as JSON lines; runs each and writes the stack of what it throws, or its
// result as JSON. Modules are loaded as the guest's runtime loads them.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

async function execute({ program }) {
  const modules = new Map((program.modules ?? []).map((m) => [m.id, { ...m }]));
  const evaluate = (m) => {
    if (m.module) return m;
    m.module = { exports: {} };
    if (m.kind === 'json') {
      m.module.exports = JSON.parse(m.code);
      return m;
    }
    if (m.kind === 'builtin' && m.server !== 'servers') {
      m.module.exports = require(`node:${m.server}`);
      return m;
    }
    if (m.kind === 'server' || m.kind === 'builtin') {
      const functions = (m.functions ?? []).map((f) => [f.name, () => f.tool]);
      m.module.exports = Object.fromEntries([...functions, ['name', m.server]]);
      return m;
    }
    // What is loaded at run time is among the modules too.
    const load = (specifier) => evaluate(
      modules.get(m.deps?.[specifier]) ??
        modules.get(path.posix.resolve(m.id, '..', specifier)) ??
        modules.get(`builtin:${specifier}`),
    );
    const result = vm.runInThisContext(m.code, { filename: m.id })(
      m.module.exports,
      (specifier) => {
        const dependency = load(specifier);
        if (dependency.async) throw new Error('require of an async module');
        return dependency.module.exports;
      },
      m.module,
      async (specifier) => namespace(load(specifier)),
    );
    m.ready = m.async ? result : undefined;
    return m;
  };
  const namespace = async (m) => {
    await m.ready;
    return m.esm ? m.module.exports : { ...m.module.exports, default: m.module.exports };
  };
  try {
    const parameters = [];
    for (const i of program.imports ?? []) {
      const found = await namespace(evaluate(modules.get(i.module)));
      for (const name of i.names ?? []) if (!(name in found)) throw new SyntaxError(`no export ${name}`);
      parameters.push(found);
    }
    parameters.push((specifier) => Promise.resolve({ dynamic: specifier }));
    let value = await vm.runInThisContext(program.code, { filename: 'program.js' })(...parameters);
    if (typeof value === 'function') value = await value();
    return { value: value === undefined ? null : value };
  } catch (error) {
    return { message: String(error?.message ?? error), stack: String(error?.stack ?? '') };
  }
}

(async () => {
  for (const line of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
    process.stdout.write(JSON.stringify(await execute(JSON.parse(line))) + '\n');
  }
})();
