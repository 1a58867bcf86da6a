// The run's clock. It is no call: it stands at the time of the last frame from the host, and every read moves it on by
// one microsecond, so that time never stands still for a program that waits by reading it.

import {
  construct, define, defineProperty, getOwnPropertyDescriptor, floor, global, NativeDate, dateToString, dateToTimeString, endsWith, own, ownKeys,
} from './intrinsics.js';
import { markNative } from './brands.js';
import { tokenTo } from './tokens.js';

let started = 0; // microseconds since the Unix epoch
let frameTime = 0;
let reads = 0;

// startClock sets the clock from the start frame.
export function startClock(frame) {
  started = frameTime = own(frame, 'now') ?? 0;
  reads = 0;
}

// moveClock takes the time of an answer. A frame without a time leaves the clock as it is, and none moves it back.
export function moveClock(frame) {
  const time = frame.now;
  if (time === undefined || time < frameTime + reads) return;
  frameTime = time;
  reads = 0;
}

// now reads the clock, in microseconds since the Unix epoch.
export function now() {
  reads++;
  return frameTime + reads;
}

// elapsed is the time since the run's start in milliseconds.
export function elapsed() {
  return (now() - started) / 1000;
}

const nowMillis = () => floor(now() / 1000);

// zoned adds the name of the time zone to the text of a date, where the engine leaves it out.
const zoned = (text) => (endsWith(text, 'GMT+0000') ? `${text} (Coordinated Universal Time)` : text);

// installDate replaces Date by a function of the same shape that reads this clock. Dates are the engine's own objects:
// instanceof, subclassing and every method work as before.
function installDate() {
  const Date = function Date(...args) {
    if (new.target === undefined) return zoned(dateToString(new NativeDate(nowMillis())));
    if (args.length === 1) tokenTo('number', 'Date', args[0]);
    return construct(NativeDate, args.length === 0 ? [nowMillis()] : args, new.target);
  };
  const statics = ownKeys(NativeDate);
  for (let i = 0; i < statics.length; i++) {
    defineProperty(Date, statics[i], getOwnPropertyDescriptor(NativeDate, statics[i]));
  }
  const methods = { now: () => nowMillis() }; // an arrow in a literal: no constructor, and named as the built-in is
  define(Date, 'now', methods.now, false);
  const texts = {
    toString() { return zoned(dateToString(this)); },
    toTimeString() { return zoned(dateToTimeString(this)); },
  };
  define(NativeDate.prototype, 'toString', texts.toString, false);
  define(NativeDate.prototype, 'toTimeString', texts.toTimeString, false);
  define(NativeDate.prototype, 'constructor', Date, false);
  markNative(Date);
  define(global, 'Date', Date, false);
}

// installPerformance replaces performance by the two members that do not show the machine.
function installPerformance() {
  const performance = {
    now: () => elapsed(),
    get timeOrigin() { return started / 1000; },
    toJSON: () => ({ timeOrigin: started / 1000 }),
  };
  define(global, 'performance', performance, false);
}

export function installClock() {
  installDate();
  installPerformance();
}
