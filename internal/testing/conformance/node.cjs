// Runs scripts in Node.js: a line of JSON in for each, a line of JSON out with how it ended. A script with the property here is run in
// the realm of this process, others in contexts of their own.
'use strict';
const fs = require('node:fs');
const vm = require('node:vm');
const readline = require('node:readline');

const { parse, stringify } = JSON;
const write = process.stdout.write.bind(process.stdout);
let current; // what promises that are rejected belong to
process.on('unhandledRejection', () => {});
process.on('uncaughtException', (thrown) => { if (current) current('runtime', thrown); });

const text = (value) => {
  try {
    return String(value);
  } catch {
    return 'a value without a text';
  }
};
const className = (thrown) => {
  try {
    return text(thrown.constructor.name);
  } catch {
    return typeof thrown;
  }
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { setup, code, async, files, here } = parse(line);
  const lines = [];
  let ended = false;
  const finish = (phase, thrown) => {
    if (ended) return;
    ended = true;
    write(`${stringify({ phase, name: phase ? className(thrown) : '', message: phase ? text(thrown) : '', lines })}\n`);
  };
  current = finish;
  const print = (value) => {
    lines.push(text(value));
    if (async && lines.at(-1).startsWith('Test262:Async')) setImmediate(finish, '');
  };
  let evaluate;
  if (here) {
    globalThis.print = print;
    globalThis.readTestFile = (name) => fs.promises.readFile(files[name], 'utf8');
    evaluate = (script) => script.runInThisContext();
  } else {
    const realm = vm.createContext(Object.create(null));
    Object.defineProperty(vm.runInContext('this', realm), 'print', { value: print, configurable: true, writable: true });
    evaluate = (script) => script.runInContext(realm);
  }
  let phase = 'parse';
  try {
    evaluate(new vm.Script(setup, { filename: 'setup.js' }));
    const script = new vm.Script(code, { filename: 'test.js' });
    phase = 'runtime';
    evaluate(script);
  } catch (thrown) {
    finish(phase, thrown);
    return;
  }
  if (!async) setImmediate(finish, '');
});
