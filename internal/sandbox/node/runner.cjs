// The runner of the tiers with Node.js: it executes one program, in a realm of its own, with frames on standard input and output.
// PRELUDE is the text of the guest runtime, LIBRARIES that of the libraries that it uses, in a realm of their own.
//
// Objects of this outer realm lead a program to Node.js and are kept from it: only text passes between the realms, and buffers to be detached. What V8 hands over
// by itself (the error of a refused import) leads no further, since this realm compiles no text (--disallow-code-generation-from-strings)
// and its prototypes are frozen. That is order, not a wall: the walls are around the process.
'use strict';
const fs = require('node:fs');
const vm = require('node:vm');

const newRealm = () => vm.createContext(vm.constants.DONT_CONTEXTIFY ?? Object.create(null), { codeGeneration: { strings: true, wasm: false } });

// JOIN is the inner half. What it returns takes functions of the outer realm and gives the guest runtime functions of the inner one.
const JOIN = `(() => {
  'use strict';
  const { Error, String } = globalThis;
  const { defineProperty, getPrototypeOf, prototype } = Object;
  // Whatever calls a function of the outer realm may get its error: that the stack is full.
  const isOuter = (thrown) => {
    if (thrown === null || typeof thrown !== 'object') return false;
    let root = thrown;
    for (let next = thrown; next !== null; next = getPrototypeOf(next)) root = next;
    return root !== prototype;
  };
  // What the outer realm throws stays there.
  const inner = (outer) => (a, b) => {
    let thrown;
    try {
      return outer(a, b);
    } catch (error) {
      thrown = error;
    }
    if (!isOuter(thrown)) throw thrown;
    const made = new Error(String(thrown.message));
    defineProperty(made, 'name', { __proto__: null, value: String(thrown.name), configurable: true, writable: true });
    throw made;
  };
  return ({ send, sendSync, compile, libraries, atob, btoa, detach, inexact, depth }) => {
    globalThis.atob = inner(atob);
    globalThis.btoa = inner(btoa);
    const load = inner(libraries);
    return { send: inner(send), sendSync: inner(sendSync), compile: inner(compile), detach: inner(detach), inexact: inner(inexact), depth, get libraries() { return load(); } };
  };
})()`;

// boot makes the guest runtime in a realm, from its compiled script. calls are its ways to the host.
function boot(script, realm, calls) {
  const evaluate = (code, filename) => vm.runInContext(code, realm, { filename });
  const join = evaluate(JOIN, 'harness:prelude');
  const host = join({ ...calls, compile: evaluate, libraries, atob, btoa, detach, inexact, depth: 600 }); // sets atob and btoa, which the runtime takes when it is evaluated
  return script.runInContext(realm)(host);
}

// detach takes an ArrayBuffer of the inner realm its bytes; V8 looks at nothing else of it.
const clone = structuredClone;
const detach = (buffer) => { clone(null, { transfer: [buffer] }); };

const isDigit = (text, i) => { const c = text.charCodeAt(i); return c >= 48 && c <= 57 || c === 46; }; // or a dot
const mostDigits = 15; // every number of so many digits has a double of its own
const longExponent = /\d[eE][+-]?\d{3}/;

// inexact is a text that is not empty if a valid JSON text may have a number that a double does not hold. A number as JavaScript writes it is
// held. A number of more than mostDigits digits has one at a multiple of mostDigits + 1: only those places are looked at.
function inexact(text) {
  for (let i = mostDigits; i < text.length; i += mostDigits + 1) {
    if (!isDigit(text, i)) continue;
    let start = i;
    while (isDigit(text, start - 1)) start--;
    let end = i + 1;
    while (isDigit(text, end)) end++;
    if (end - start <= mostDigits) continue;
    const number = text.slice(start, end);
    if ((text.charCodeAt(end) | 32) === 101 || String(+number) !== number || !number.includes('.') && !Number.isSafeInteger(+number)) return 'beyond';
  }
  return longExponent.test(text) ? 'beyond' : '';
}

// load compiles the guest runtime. The runner's argument names the file of its code cache, in which V8 keeps compiled functions: without one, or with that
// of another V8, load executes a small program and returns a new cache, too.
async function load() {
  const script = (cachedData) => new vm.Script(`(() => {${PRELUDE}\nreturn __harness.default;})()`, { filename: 'harness:prelude', cachedData });
  const file = process.argv[2];
  if (file === undefined) return { runtime: script() };
  if (fs.existsSync(file)) {
    const runtime = script(fs.readFileSync(file));
    if (!runtime.cachedDataRejected) return { runtime };
  }
  const runtime = script();
  await rehearse(runtime);
  return { runtime, cache: runtime.createCachedData() };
}

// rehearse executes a program in a realm of its own, without a host, so that V8 compiles the functions that most programs use.
async function rehearse(script) {
  const sent = [];
  const guest = boot(script, newRealm(), { send: (frame) => sent.push(frame), sendSync: () => { throw new Error('no host'); } });
  const code = `(async () => {
    console.log('one', { two: [3] });
    await callMCPTool('a__b', { c: 1 });
    return { d: ['e', 1.5, true, null] };
  })`;
  guest.start(JSON.stringify({ t: 'start', run: 'rehearsal', now: 1, seed: '00'.repeat(32), program: { code }, limits: {} }));
  await microtasks();
  guest.settle(false);
  guest.deliver('{"t":"answer","run":"rehearsal","id":1,"now":2,"value":{"f":["g"]}}');
  await microtasks();
  if (!guest.settle(false) || !sent.at(-1).startsWith('{"t":"done"')) throw new Error(`the rehearsal ended with ${sent.at(-1)}`);
}

// libraries evaluates the libraries; the guest runtime asks for them once, when a program first needs one.
function libraries() {
  const apart = vm.createContext(vm.constants.DONT_CONTEXTIFY ?? Object.create(null), { codeGeneration: { strings: false, wasm: false } });
  return vm.runInContext(`${LIBRARIES}\n;__libraries`, apart, { filename: 'harness:libraries' });
}

let buffered = []; // what was read and not taken; between lines one part at most
let size = 0;
const chunk = Buffer.allocUnsafe(1 << 16);

// readLine blocks: while a synchronous call waits, nothing of the guest may run.
function readLine() {
  for (let part = buffered[0], from = 0; ;) {
    const end = part === undefined ? -1 : part.indexOf(10);
    if (end >= 0) {
      const all = buffered.length === 1 ? part : Buffer.concat(buffered, size);
      const line = all.toString('utf8', 0, from + end);
      const rest = all.subarray(from + end + 1);
      buffered = rest.length > 0 ? [rest] : [];
      size = rest.length;
      return line;
    }
    const n = wait(() => fs.readSync(0, chunk));
    if (n === 0) process.exit(0); // the host is gone
    part = Buffer.from(chunk.subarray(0, n));
    from = size;
    size += n;
    buffered.push(part);
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4));

// wait repeats what a pipe that does not block refuses.
function wait(attempt) {
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}

let last = ''; // the guest runtime's done frame

function write(frame) {
  for (let rest = Buffer.from(`${frame}\n`); rest.length > 0;) rest = rest.subarray(wait(() => fs.writeSync(1, rest)));
}

function send(frame) {
  if (frame.startsWith('{"t":"done"')) last = frame;
  else write(frame);
}

const queued = []; // answers that came while the guest waited for a synchronous one

function sendSync(text) {
  write(text);
  const id = `"id":${JSON.parse(text).id},`;
  for (;;) {
    const line = readLine();
    if (isCancel(line)) cancelled();
    if (!line.startsWith('{"t":"answer"')) continue;
    const head = line.slice(0, 200);
    if (head.includes(id) && head.includes('"sync":true')) return line;
    queued.push(line);
  }
}

const isCancel = (line) => line.startsWith('{"t":"cancel"');

function cancelled() {
  write(`{"t":"done","run":${run},"error":{"kind":"cancelled","message":"interrupted"}}`);
  process.exit(0);
}

const unhandled = new Map(); // promise -> reason, oldest first
process.on('unhandledRejection', (reason, promise) => unhandled.set(promise, reason));
process.on('rejectionHandled', (promise) => unhandled.delete(promise));
const later = setImmediate;
const microtasks = () => new Promise((resolve) => { later(resolve); });

let run = '""';

async function main() {
  const { runtime, cache } = await load();
  const realm = newRealm();
  const guest = boot(runtime, realm, { send, sendSync });
  harden();
  const missing = process.env.MISSING_WALLS ?? '{}';
  write(`{"t":"ready","engine":${JSON.stringify(process.version)},"missing":${missing}${cache ? `,"cache":"${cache.toString('base64')}"` : ''}}`);
  let line;
  do line = readLine(); while (!line.startsWith('{"t":"start"'));
  run = JSON.stringify(JSON.parse(line).run ?? '');
  guest.start(line);
  for (;;) {
    await microtasks();
    if (guest.settle(false, ...[...unhandled.values()].slice(0, 1))) break;
    line = queued.shift() ?? readLine();
    if (isCancel(line)) cancelled();
    if (line.startsWith('{"t":"answer"')) guest.deliver(line);
  }
  write(last);
  for (;;) readLine(); // the host ends this process
}

// harden freezes what the program might come by.
function harden() {
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    const value = Object.getOwnPropertyDescriptor(globalThis, name).value;
    if (typeof value !== 'function') continue;
    Object.freeze(value);
    if (value.prototype !== undefined) Object.freeze(value.prototype);
  }
}

main().catch((error) => {
  fs.writeSync(2, `${error?.stack ?? error}\n`);
  process.exit(1);
});
