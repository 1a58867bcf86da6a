// utils: the small functions of the sandbox's runtime.

import { dateToISOString, floor, NativeDate, toStr } from './intrinsics.js';
import { now } from './clock.js';
import { report } from './console.js';
import { parse } from './exact.js';
import { requireServer } from './modules.js';
import { sleep } from './timers.js';

const reason = (error) => toStr(error?.message ?? error);

export const utils = {
  sleep: (ms) => sleep(ms),

  // parseJSON returns null, and says so on the console, for what is no JSON.
  parseJSON(text) {
    try {
      return parse(text);
    } catch (error) {
      report('error', `[utils.parseJSON] ${reason(error)}`);
      return null;
    }
  },

  timestamp: () => dateToISOString(new NativeDate(floor(now() / 1000))),

  // requireServer returns the module of a server, or null, and says so on the console, if there is none.
  requireServer(path) {
    try {
      return requireServer(path);
    } catch (error) {
      report('error', `[utils.requireServer] ${reason(error)}`);
      return null;
    }
  },
};
