// A runner in Node.js for the tests of the guest runtime: frames in and out, one per line, each program in a new context.
// Its argument is the file of the bundle. A start frame begins a new program; the process ends with its input.
'use strict';
const fs = require('node:fs');
const vm = require('node:vm');

// As in the wasm tier, a function around the bundle keeps its one global from the guest.
const bundle = new vm.Script(
  `(() => {${fs.readFileSync(process.argv[2], 'utf8')}\nreturn __harness.default;})()`, { filename: 'harness:prelude' },
);

let buffered = Buffer.alloc(0);
// readLine blocks: while a synchronous call waits, nothing of the guest may run.
function readLine() {
  for (;;) {
    const end = buffered.indexOf(10);
    if (end >= 0) {
      const line = buffered.toString('utf8', 0, end);
      buffered = buffered.subarray(end + 1);
      return line;
    }
    const chunk = Buffer.alloc(1 << 16);
    const n = fs.readSync(0, chunk);
    if (n === 0) return undefined;
    buffered = Buffer.concat([buffered, chunk.subarray(0, n)]);
  }
}

function send(text) {
  for (let rest = Buffer.from(`${text}\n`); rest.length > 0;) rest = rest.subarray(fs.writeSync(1, rest));
}

function sendSync(text) {
  send(text);
  return readLine();
}

const unhandled = new Map(); // promise -> reason, oldest first
process.on('unhandledRejection', (reason, promise) => unhandled.set(promise, reason));
process.on('rejectionHandled', (promise) => unhandled.delete(promise));
const microtasks = () => new Promise((resolve) => { setImmediate(resolve); });

async function main() {
  let guest;
  for (let line; (line = readLine()) !== undefined;) {
    if (line.startsWith('{"t":"start"')) {
      unhandled.clear();
      const context = vm.createContext({ atob, btoa, queueMicrotask });
      const compile = (code, filename) => vm.runInContext(code, context, { filename });
      guest = bundle.runInContext(context)({ send, sendSync, compile });
      guest.start(line);
    } else {
      guest.deliver(line);
    }
    await microtasks();
    guest.settle(...[...unhandled.values()].slice(0, 1));
  }
}
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
