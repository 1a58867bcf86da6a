// The guest runtime: what runs inside the sandbox around a program, the same in every engine. The embedder evaluates
// the bundle once, calls boot once, and keeps the functions it returns out of the guest's reach:
//
//   start(text)      takes the start frame and begins the program
//   deliver(text)    takes one answer frame
//   settle(full, reason?)
//                    is called each time no microtask is left, with whether the program was refused memory, and the
//                    oldest unhandled rejection if there is one; it sends an idle frame and returns false, or a done
//                    frame and returns true
//   stackOf(error)   returns the engine's stack of an error, without running code of the program
//
// After boot everything is constant, so that a snapshot taken then serves every run.

import { define, defineProperty, freeze, global, jsonParse, own } from './intrinsics.js';
import { installProxy } from './brands.js';
import { bindWeb, modules } from './builtins.js';
import { toBase64 } from './bytes.js';
import { connect, deliver, detach, outstanding, requestSync, sendDone, sendIdle } from './calls.js';
import { installClock, now, startClock } from './clock.js';
import { installConsole, report } from './console.js';
import { discovery } from './discovery.js';
import { callSite, errorClasses, installAny, installStacks, stackOf } from './errors.js';
import { installJSON } from './exact.js';
import { awaitedByCallback, bindBuffer, fs, installToString, readBytes } from './files.js';
import { allowed, prune } from './globals.js';
import { connectLibraries } from './libraries.js';
import { programRequire } from './modules.js';
import { ended, failing, neverSettled, unhandled, unreturned } from './outcome.js';
import { pii } from './pii.js';
import { startProgram } from './program.js';
import { installRandom, random, startRandom } from './random.js';
import { begin } from './run.js';
import { startInput } from './input.js';
import { hideSources } from './sources.js';
import { quote, record } from './text.js';
import { rememberMethods, watchTokens } from './tokens.js';
import { callHTTP, callMCPTool, tools } from './tools.js';
import { backgroundTimer, holdingTimers, intervals, liveTimers, timerGlobals } from './timers.js';
import { utils } from './utils.js';
import { installWeak } from './weak.js';
import { install as installWeb } from './web/index.js';

export { allowed };

function defineAll(functions) {
  for (const name in functions) define(global, name, functions[name], false);
}

// fixConcat keeps String.prototype.concat as it is: QuickJS compiles every template literal to a call of it, the
// prelude's too.
function fixConcat() {
  const { concat } = String.prototype;
  defineProperty(String.prototype, 'concat', { __proto__: null, value: concat, writable: false, configurable: false });
}

// installSymbols adds the symbols of explicit resource management where the engine lacks them, so that using works on objects of programs.
function installSymbols() {
  for (const name of ['dispose', 'asyncDispose']) { // at boot, before any program
    if (Symbol[name] !== undefined) continue;
    defineProperty(Symbol, name, { __proto__: null, value: Symbol(`Symbol.${name}`), writable: false, enumerable: false, configurable: false });
  }
}

// zone asks the host for the transitions of a time zone.
const zone = (name) => requestSync('intl', 'zone', record('zone', quote(name)));

function installGlobals() {
  installProxy();
  installSymbols();
  installClock();
  installRandom();
  installConsole();
  installJSON();
  installWeak();
  defineAll(errorClasses);
  defineAll(timerGlobals);
  defineAll(installWeb({ random, now, zone, backgroundTimer, callSite, http: callHTTP, readFile: readBytes, base64: toBase64, detach }));
  defineAll(discovery);
  defineAll({ callMCPTool, env: freeze({}), fs, input: undefined, pii, require: programRequire, tools, utils });
  bindBuffer();
  bindWeb();
  installStacks();
  installAny();
  installToString((text) => report('warn', text));
  fixConcat();
  prune();
  rememberMethods();
  hideSources(modules);
}

// env makes the program's variables: env.NAME.
function env(variables) {
  const copy = {};
  for (const name in variables) define(copy, name, variables[name]);
  define(global, 'env', freeze(copy), false);
}

let warned = false;
let over = false;

// warnOfCalls tells of calls whose answers nothing takes. Those with a callback are not among them: it gets the answer, as in Node.
function warnOfCalls(count) {
  if (warned || count <= 0) return;
  warned = true;
  const calls = count === 1 ? '1 call was' : `${count} calls were`;
  report('warn', `${calls} still in flight when the program ended; await ${count === 1 ? 'it' : 'them'}`);
}

// warnOfIntervals tells of intervals that end with a program which has a value.
function warnOfIntervals(count) {
  if (count === 0) return;
  report('warn', `${count === 1 ? '1 interval was' : `${count} intervals were`} still running when the program ended, and went off no more; ` +
    'await a promise that the last one resolves, or clear what is not needed with clearInterval');
}

// waits reports whether the program goes on although no microtask is left. A program whose value has settled goes on for
// its calls and one-shot timers, and for its intervals if it returned nothing: then they are what it is about. One that has failed
// goes on for its calls alone, and not even for them if memory was refused to it; before that every timer counts.
function waits(full, calls, outcome, rejections) {
  if (full && (outcome?.name === 'error' || failing(rejections))) return false;
  if (calls > 0) return true;
  if (!outcome) return liveTimers() > 0;
  if (outcome.name !== 'value' || failing(rejections)) return false;
  return holdingTimers() > 0 || outcome.text === 'null' && intervals() > 0;
}

function finish(name, text) {
  over = true;
  sendDone(name, text);
  return true;
}

export default function boot(host) {
  connect(host);
  connectLibraries(host);
  installGlobals();
  return {
    __proto__: null,
    start(text) {
      const frame = jsonParse(text);
      begin(frame);
      startClock(frame);
      startRandom(frame);
      env(own(frame, 'env') ?? {});
      startInput(own(frame, 'input'));
      watchTokens(own(frame, 'tokens'), own(frame, 'methods'));
      startProgram(own(frame, 'program') ?? {});
    },
    deliver,
    stackOf,
    settle(full, ...rejections) {
      if (over) return true;
      const calls = outstanding();
      const outcome = ended();
      if (waits(full, calls, outcome, rejections)) {
        if (outcome && outcome.name === 'value') warnOfCalls(calls - awaitedByCallback());
        sendIdle();
        return false;
      }
      if (outcome && outcome.name === 'error') return finish('error', outcome.text);
      const failure = unhandled(rejections);
      if (failure) return finish('error', failure);
      if (!outcome) return finish('error', neverSettled());
      warnOfIntervals(intervals());
      const advice = unreturned();
      if (advice !== undefined) report('warn', advice);
      return finish('value', outcome.text);
    },
  };
}
