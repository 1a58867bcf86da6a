// Event, EventTarget, AbortController and AbortSignal. A listener that throws does not stop the others: its error is
// an unhandled rejection, which fails the run as an unhandled error would.
import { DOMException } from './domexception.js';
import { apply, arraySlice, defineProperty, indexOf, keys, push, reject, splice, toNumber, toStr } from '../intrinsics.js';
import { tag } from './shapes.js';

// eventClasses makes the classes over ctx's clock and timers.
export function eventClasses(ctx) {
  const listeners = Symbol('listeners');
  const dispatching = Symbol('dispatching');

  class Event {
    #type;
    #options;
    #target = null;
    #current = null;
    #prevented = false;
    #stopped = false; // stopImmediatePropagation
    #propagation = false;
    #busy = false;
    #passive = false; // the listener that runs now has promised not to prevent
    #trusted = false;
    #time;

    constructor(type, options = {}) {
      if (arguments.length === 0) throw new TypeError('Event needs a type');
      this.#type = toStr(type);
      this.#options = {
        bubbles: Boolean(options?.bubbles), cancelable: Boolean(options?.cancelable), composed: Boolean(options?.composed),
      };
      this.#time = ctx.now() / 1000;
    }

    get type() { return this.#type; }
    get target() { return this.#target; }
    get srcElement() { return this.#target; }
    get currentTarget() { return this.#current; }
    get bubbles() { return this.#options.bubbles; }
    get cancelable() { return this.#options.cancelable; }
    get composed() { return this.#options.composed; }
    get defaultPrevented() { return this.#prevented; }
    get returnValue() { return !this.#prevented; }
    set returnValue(value) { if (!value) this.preventDefault(); }
    get cancelBubble() { return this.#propagation; }
    set cancelBubble(value) { if (value) this.#propagation = true; }
    get eventPhase() { return this.#busy ? 2 : 0; }
    get isTrusted() { return this.#trusted; }
    // Milliseconds since the epoch on the run's clock.
    get timeStamp() { return this.#time; }

    composedPath() { return this.#busy ? [this.#current] : []; }
    preventDefault() { if (this.#options.cancelable && !this.#passive) this.#prevented = true; }
    stopPropagation() { this.#propagation = true; }
    stopImmediatePropagation() { this.#propagation = this.#stopped = true; }

    initEvent(type, bubbles = false, cancelable = false) {
      if (this.#busy) return;
      this.#type = toStr(type);
      this.#options = { bubbles: Boolean(bubbles), cancelable: Boolean(cancelable), composed: this.#options.composed };
      this.#stopped = this.#propagation = this.#prevented = this.#trusted = false;
    }

    [dispatching](target, trusted) {
      if (this.#busy) throw new DOMException('The event is already being dispatched', 'InvalidStateError');
      const list = target[listeners];
      this.#busy = true;
      this.#trusted = trusted;
      this.#target = this.#current = target;
      const all = arraySlice(list); // those added from here on wait for the next event
      for (let i = 0; i < all.length && !this.#stopped; i++) {
        const entry = all[i];
        if (entry.type !== this.#type || entry.removed) continue;
        if (entry.once) drop(list, entry);
        this.#passive = entry.passive;
        try {
          if (typeof entry.callback === 'function') apply(entry.callback, target, [this]);
          else entry.callback.handleEvent(this);
        } catch (error) {
          reject(error);
        }
      }
      this.#busy = this.#stopped = this.#propagation = this.#passive = false;
      this.#current = null;
      return !this.#prevented;
    }
  }

  class CustomEvent extends Event {
    #detail;
    constructor(type, options = {}) {
      super(type, options);
      this.#detail = options?.detail ?? null;
    }

    get detail() { return this.#detail; }
  }

  class EventTarget {
    constructor() {
      defineProperty(this, listeners, { __proto__: null, value: [] });
    }

    addEventListener(type, callback, options) {
      if (callback != null && typeof callback !== 'function' && typeof callback !== 'object') {
        throw new TypeError('An event listener is a function or an object with handleEvent');
      }
      const signal = options?.signal;
      if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('signal must be an AbortSignal');
      if (callback == null || signal?.aborted) return;
      const capture = typeof options === 'boolean' ? options : Boolean(options?.capture);
      const list = this[listeners];
      type = toStr(type);
      if (find(list, type, callback, capture)) return;
      const entry = { type, callback, capture, once: Boolean(options?.once), passive: Boolean(options?.passive), removed: false };
      push(list, entry);
      if (signal) signal.addEventListener('abort', () => drop(list, entry), { once: true });
    }

    removeEventListener(type, callback, options) {
      const capture = typeof options === 'boolean' ? options : Boolean(options?.capture);
      const entry = find(this[listeners], toStr(type), callback, capture);
      if (entry) drop(this[listeners], entry);
    }

    dispatchEvent(event) {
      if (!(event instanceof Event)) throw new TypeError('dispatchEvent takes an Event');
      return event[dispatching](this, false);
    }
  }

  const make = Symbol('make'); // AbortSignal has no public constructor
  const abort = Symbol('abort');

  class AbortSignal extends EventTarget {
    #aborted = false;
    #reason;
    #onabort = null;
    #followers = [];

    constructor(token) {
      if (token !== make) throw new TypeError('Illegal constructor: use new AbortController().signal');
      super();
    }

    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    get onabort() { return this.#onabort; }
    set onabort(fn) {
      if (this.#onabort) this.removeEventListener('abort', this.#onabort);
      this.#onabort = typeof fn === 'function' ? fn : null;
      if (this.#onabort) this.addEventListener('abort', this.#onabort);
    }

    throwIfAborted() {
      if (this.#aborted) throw this.#reason;
    }

    // Followers are marked before any listener runs, so that no listener sees half of them aborted.
    [abort](reason) {
      if (this.#aborted) return;
      const all = [this];
      for (let i = 0; i < all.length; i++) {
        const signal = all[i];
        signal.#aborted = true;
        signal.#reason = reason;
        for (let k = 0; k < signal.#followers.length; k++) {
          if (!signal.#followers[k].#aborted) push(all, signal.#followers[k]);
        }
        signal.#followers = [];
      }
      for (let i = 0; i < all.length; i++) new Event('abort')[dispatching](all[i], true);
    }

    static abort(reason = aborted()) {
      const signal = new AbortSignal(make);
      signal.#aborted = true;
      signal.#reason = reason;
      return signal;
    }

    static timeout(ms) {
      const delay = toNumber(ms);
      if (!(delay >= 0 && delay <= Number.MAX_SAFE_INTEGER)) throw new RangeError('The delay is out of range');
      const signal = new AbortSignal(make);
      ctx.backgroundTimer(
        () => signal[abort](new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay);
      return signal;
    }

    static any(signals) {
      const out = new AbortSignal(make);
      const sources = [...signals];
      for (let i = 0; i < sources.length; i++) {
        if (!(sources[i] instanceof AbortSignal)) throw new TypeError('AbortSignal.any takes AbortSignals');
        if (sources[i].aborted && !out.#aborted) {
          out.#aborted = true;
          out.#reason = sources[i].reason;
        }
      }
      if (!out.#aborted) for (let i = 0; i < sources.length; i++) push(sources[i].#followers, out);
      return out;
    }
  }

  class AbortController {
    #signal = new AbortSignal(make);
    get signal() { return this.#signal; }
    abort(reason = aborted()) { this.#signal[abort](reason); }
  }

  const phases = ['NONE', 'CAPTURING_PHASE', 'AT_TARGET', 'BUBBLING_PHASE'];
  for (let i = 0; i < phases.length; i++) {
    const constant = { __proto__: null, value: i, enumerable: true };
    defineProperty(Event, phases[i], constant);
    defineProperty(Event.prototype, phases[i], constant);
  }
  const classes = { Event, CustomEvent, EventTarget, AbortSignal, AbortController };
  for (const name of keys(classes)) tag(classes[name], name);
  return classes;
}

const aborted = () => new DOMException('This operation was aborted', 'AbortError');

function find(list, type, callback, capture) {
  for (let i = 0; i < list.length; i++) {
    const e = list[i];
    if (e.type === type && e.callback === callback && e.capture === capture) return e;
  }
  return undefined;
}

function drop(list, entry) {
  entry.removed = true;
  const at = indexOf(list, entry);
  if (at >= 0) splice(list, at, 1);
}
