// Host calls: the only way out of the sandbox. A call is one frame; its answer comes back by id. Calls are numbered when
// they are sent, in the order in which the program made them.

import {
  apply, define, jsonParse, list, mapDelete, mapGet, mapSet, NativeMap, NativePromise, NativeRangeError, NativeTypeError, setPrototypeOf,
  strSlice,
} from './intrinsics.js';
import { moveClock } from './clock.js';
import { callSite, errorFrom } from './errors.js';
import { parseExact } from './exact.js';
import { run } from './run.js';
import { fits, quote } from './text.js';
import { watchTokens } from './tokens.js';

let host; // {send, sendSync, compile, detach?, depth?}
let callDepth; // how many functions deep a call goes at most
let lastID = 0;
let taken = 0; // answers delivered so far
let inFlight = 0; // calls sent and not answered, without timers
const pending = new NativeMap(); // id -> what to do with the answer
let waiting = list(); // calls beyond the limit, in order
let waitingFrom = 0; // index of the first one that still waits
let waitingFiles = 0; // those of them that are file calls

export function connect(theHost) {
  host = theHost;
  callDepth = host.depth ?? 16;
}

// frame makes a call's frame. Kinds are ours and need no quoting, which costs more than all the rest.
function frame(id, kind, name, args, sync) {
  const head = `{"t":"call","run":${run.quotedID},"id":${id},"kind":"${kind}","name":${quote(name)}`;
  return `${head},"args":${args}${sync ? ',"sync":true' : ''}}`;
}

// room throws a RangeError where the stack has too little room for a call: one that is half made cannot be taken back.
function room(depth) {
  if (depth > 0) room(depth - 1);
}

function send(call) {
  room(callDepth);
  if (!call.timer) inFlight++;
  call.id = ++lastID;
  mapSet(pending, call.id, call);
  host.send(frame(call.id, call.kind, call.name, call.args, false));
}

const maxName = 1024; // bytes of a call's name; the host takes a longer one for a broken runner

// checkName throws for the name of a tool or server that is too long to be one.
export function checkName(what, name) {
  if (fits(name, maxName)) return;
  throw new NativeTypeError(
    `the name of a ${what} has at most ${maxName} bytes; got ${name.length} characters that begin with '${strSlice(name, 0, 40)}'`,
  );
}

function checkArgs(name, args) {
  if (fits(args, run.maxValue)) return;
  throw new NativeRangeError(
    `the arguments of ${name} are more than ${run.maxValue} bytes: ` +
    'write large data to a file in /workspace and pass its path',
  );
}

// request makes an asynchronous call and returns a promise of its answer. args is JSON text. convert, if given, makes
// the value that the program gets from the one on the wire and the rest of the answer; recover may do the same with the error, or throw. site says
// where the program called.
export function request(kind, name, args, convert, recover, site = callSite()) {
  return new NativePromise((resolve, reject) => {
    checkName('tool', name);
    checkArgs(name, args);
    const call = {
      __proto__: null, id: 0, kind, name, args, timer: false,
      answered(wire) {
        try {
          const error = wire.error;
          if (!error) {
            const value = wire.value ?? null;
            if (wire.beside !== undefined && typeof value === 'object' && value !== null) define(value, '$content', wire.beside, false);
            resolve(convert ? convert(value, wire) : value);
          } else if (recover) {
            resolve(recover(errorFrom(error, site)));
          } else {
            reject(errorFrom(error, site));
          }
        } catch (thrown) {
          reject(thrown);
        }
      },
    };
    if (run.inFlight > 0 && inFlight >= run.inFlight) {
      waiting[waiting.length] = call;
      if (kind === 'fs') waitingFiles++;
      return;
    }
    send(call);
  });
}

// requestTimer makes a timer call. Timers are the host's to count; they take no place among the calls in flight, or a
// hundred sleeping loops would keep every tool call waiting. fired gets an error if the host refused the timer.
export function requestTimer(ms, fired) {
  send({
    __proto__: null, id: 0, kind: 'timer', name: 'sleep', args: `{"ms":${ms}}`, timer: true,
    answered(wire) {
      const error = wire.error;
      fired(error ? errorFrom(error) : undefined);
    },
  });
}

// requestSync makes a call that blocks the guest, and returns its value or throws its error.
export function requestSync(kind, name, args) {
  checkArgs(name, args);
  const wire = block(kind, name, args);
  const error = wire.error;
  if (error) throw errorFrom(error, callSite());
  return wire.value ?? null;
}

function block(kind, name, args) {
  room(callDepth);
  const wire = read(host.sendSync(frame(++lastID, kind, name, args, true)));
  moveClock(wire);
  tell(wire);
  return wire;
}

// read reads an answer. Without a prototype its properties are its own, and cheap to read.
function read(text) {
  const wire = setPrototypeOf(jsonParse(text), null);
  return wire.exact ? setPrototypeOf(parseExact(text), null) : wire;
}

// tell prints what the host says of an answer.
function tell({ notes, tokens, methods }) {
  watchTokens(tokens, methods);
  if (notes === undefined) return;
  for (let i = 0; i < notes.length; i++) sendNote(notes[i]);
}

// deliver takes one answer. An answer that no call waits for changes nothing but the count that the host checks.
export function deliver(text) {
  const wire = read(text);
  taken++;
  const call = mapGet(pending, wire.id);
  if (!call) return;
  mapDelete(pending, call.id);
  moveClock(wire);
  if (!call.timer) {
    inFlight--;
    sendNext();
  }
  tell(wire);
  call.answered(wire);
}

function sendNext() {
  if (waitingFrom === waiting.length) return;
  const call = waiting[waitingFrom++];
  if (waitingFrom === waiting.length) {
    waiting = list();
    waitingFrom = 0;
  }
  if (call.kind === 'fs') waitingFiles--;
  send(call);
}

// requestFile makes a synchronous file call. The file calls that wait for their turn go before it, in the same manner.
export function requestFile(name, args) {
  if (waitingFiles > 0) {
    const before = waiting;
    waiting = list();
    for (let i = waitingFrom; i < before.length; i++) if (before[i].kind !== 'fs') waiting[waiting.length] = before[i];
    const from = waitingFrom;
    waitingFrom = waitingFiles = 0;
    for (let i = from; i < before.length; i++) {
      const call = before[i];
      if (call.kind === 'fs') call.answered(block(call.kind, call.name, call.args));
    }
  }
  return requestSync('fs', name, args);
}

// outstanding is the number of calls, other than timers, that wait for an answer or for their turn.
export function outstanding() {
  return inFlight + waiting.length - waitingFrom;
}

export function sendIdle() {
  host.send(`{"t":"idle","run":${run.quotedID},"taken":${taken}}`);
}

let lines = 0;

// printed is the number of lines that were logged.
export function printed() {
  return lines;
}

export function sendLog(level, text) {
  lines++;
  host.send(`{"t":"log","run":${run.quotedID},"level":"${level}","text":${quote(text)}}`);
}

// sendNote prints a line of the host's or the prelude's, which is none that the program printed.
export function sendNote(text) {
  host.send(`{"t":"log","run":${run.quotedID},"level":"warn","text":${quote(text)}}`);
}

// sendDone ends the run; outcome is "value" or "error", text its JSON.
export function sendDone(outcome, text) {
  host.send(`{"t":"done","run":${run.quotedID},"${outcome}":${text}}`);
}

// look is what a valid JSON text has that a double does not hold; nothing or an empty text if there is no such number.
export const look = (text) => host.inexact(text);

export function compile(code, filename) {
  return host.compile(code, filename);
}

const { transfer } = ArrayBuffer.prototype; // not in Node.js 20, whose runner detaches

// detach makes an ArrayBuffer one of no bytes.
export function detach(buffer) {
  if (transfer) apply(transfer, buffer, []);
  else host.detach(buffer);
}
