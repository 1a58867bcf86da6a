// inspect: values as text for people, as Node's util.inspect prints them, without running guest code: getters print as
// [Getter], proxies as their targets. The one exception is a method under Symbol.for('nodejs.util.inspect.custom').

import {
  apply, create, getOwnPropertyDescriptor, hasOwn, is, list, mapGet, mapSet, mapSize, NativeMap, push, regExpExec, repeat, sort,
  strSlice, symbolInspect, symbolToString,
} from '../intrinsics.js';
import { isNamespace, peek, proxyOf } from '../brands.js';
import { describe } from './kinds.js';
import { arrayElement, arrayLike, layout } from './layout.js';
import { replace } from '../text.js';
import { escape, indent, isName, quoted } from './strings.js';

const defaults = {
  __proto__: null,
  breakLength: 80,
  compact: 3,
  customInspect: true,
  depth: 2,
  getters: false,
  maxArrayLength: 100,
  maxStringLength: 10000,
  numericSeparator: false,
  showHidden: false,
  showProxy: false,
  sorted: false,
};

// inspect returns value as text and never throws. Options are those of util.inspect, without colours.
export function inspect(value, options) {
  try {
    return formatValue(context(options), value, 0);
  } catch {
    return `[${typeof value}: inspection failed]`; // the stack is full, or a custom inspect method threw
  }
}

function context(options) {
  const ctx = create(null);
  for (const name in defaults) {
    const given = typeof options === 'object' && options !== null ? options[name] : undefined;
    ctx[name] = given === undefined ? defaults[name] : given;
  }
  if (ctx.depth === null) ctx.depth = Infinity;
  if (ctx.maxArrayLength === null) ctx.maxArrayLength = Infinity;
  if (ctx.maxStringLength === null) ctx.maxStringLength = Infinity;
  if (typeof ctx.compact !== 'number') ctx.compact = ctx.compact ? 3 : 0;
  ctx.indentation = 0;
  ctx.currentDepth = 0;
  ctx.seen = list(); // the objects being printed, outermost first
  ctx.circular = undefined; // object -> number of its <ref *n>
  return ctx;
}

export function formatPrimitive(ctx, value) {
  switch (typeof value) {
    case 'string': return formatString(ctx, value);
    case 'number': return is(value, -0) ? '-0' : ctx.numericSeparator ? separated(`${value}`) : `${value}`;
    case 'bigint': return ctx.numericSeparator ? `${separated(`${value}`)}n` : `${value}n`;
    case 'symbol': return symbolToString(value);
    default: return `${value}`;
  }
}

// separated writes the digits of a decimal number in groups of three.
function separated(text) {
  const parts = regExpExec(/^(-?\d+)(\.\d+)?$/, text); // without an exponent
  if (!parts) return text;
  const whole = replace(/\d(?=(?:\d{3})+$)/g, parts[1], (m) => `${m[0]}_`);
  return whole + replace(/\d{3}(?=\d)/g, parts[2] ?? '', (m) => `${m[0]}_`);
}

function formatString(ctx, value) {
  let trailer = '';
  if (value.length > ctx.maxStringLength) {
    const left = value.length - ctx.maxStringLength;
    value = strSlice(value, 0, ctx.maxStringLength);
    trailer = `... ${left} more character${left > 1 ? 's' : ''}`;
  }
  if (value.length <= 16 || value.length <= ctx.breakLength - ctx.indentation - 4) return quoted(value) + trailer;
  // A long text is shown line by line.
  const margin = ` +\n${repeat(' ', ctx.indentation + 2)}`;
  return replace(/[^\n]*\n(?!$)|[^]+$/g, value, (line) => quoted(line[0]) + (line.index + line[0].length < value.length ? margin : '')) + trailer;
}

export function formatValue(ctx, value, depth, inTypedArray) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return formatPrimitive(ctx, value);
  const original = value;
  for (let proxy; (proxy = proxyOf(value));) {
    if (proxy.label !== undefined) return proxy.label;
    if (ctx.showProxy) return formatProxy(ctx, proxy, depth);
    value = proxy.target;
  }
  if (ctx.customInspect) {
    const custom = peek(value, symbolInspect);
    if (typeof custom === 'function' && custom !== inspect) {
      const result = callCustom(ctx, custom, original, depth);
      if (result !== original) {
        return typeof result === 'string' ? indent(result, ctx.indentation) : formatValue(ctx, result, depth);
      }
    }
  }
  for (let i = 0; i < ctx.seen.length; i++) {
    if (ctx.seen[i] !== value) continue;
    ctx.circular ??= new NativeMap();
    let index = mapGet(ctx.circular, value);
    if (index === undefined) {
      index = mapSize(ctx.circular) + 1;
      mapSet(ctx.circular, value, index);
    }
    return `[Circular *${index}]`;
  }
  return formatObject(ctx, value, depth, inTypedArray);
}

// callCustom returns what a custom inspect method returns; one that throws counts as absent.
function callCustom(ctx, custom, value, depth) {
  try {
    return apply(custom, value, [ctx.depth - depth, { ...ctx, seen: undefined, circular: undefined }, inspect]);
  } catch {
    return value;
  }
}

function formatProxy(ctx, proxy, depth) {
  if (depth > ctx.depth) return 'Proxy [Array]';
  ctx.indentation += 2;
  const entries = list();
  entries[0] = formatValue(ctx, proxy.target, depth + 1);
  entries[1] = formatValue(ctx, proxy.handler, depth + 1);
  ctx.indentation -= 2;
  return layout(ctx, entries, '', ['Proxy [', ']'], arrayLike, depth + 1);
}

function formatObject(ctx, value, depth, inTypedArray) {
  const shape = describe(ctx, value, depth, inTypedArray);
  if (shape.whole !== undefined) return shape.whole;
  if (depth > ctx.depth) return `[${shape.title}]`;
  depth++;

  push(ctx.seen, value);
  ctx.currentDepth = depth;
  const entries = list();
  if (shape.elements) shape.elements(ctx, value, depth, entries);
  const before = entries.length;
  for (let i = 0; i < shape.keys.length; i++) push(entries, formatProperty(ctx, value, depth, shape.keys[i], shape.kind));
  ctx.seen.length--;

  let base = shape.base;
  const index = ctx.circular && mapGet(ctx.circular, value);
  if (index !== undefined) base = base === '' ? `<ref *${index}>` : `<ref *${index}> ${base}`;
  if (ctx.sorted && before === 0) sort(entries, ctx.sorted === true ? undefined : ctx.sorted);
  return layout(ctx, entries, base, [shape.open, shape.close], shape.kind, depth, shape.element);
}

// formatProperty returns "name: value", or the value alone for an element of an array.
export function formatProperty(ctx, value, depth, key, kind) {
  const descriptor = getOwnPropertyDescriptor(value, key);
  let text;
  if (hasOwn(descriptor, 'value')) {
    ctx.indentation += 2;
    text = formatValue(ctx, descriptor.value, depth);
    ctx.indentation -= 2;
  } else if (isNamespace(value)) {
    ctx.indentation += 2;
    text = formatExport(ctx, value, depth, key);
    ctx.indentation -= 2;
  } else if (descriptor.get !== undefined) {
    text = formatGetter(ctx, value, depth, descriptor);
  } else {
    text = descriptor.set !== undefined ? '[Setter]' : 'undefined';
  }
  if (kind === arrayElement) return text;
  let name;
  if (typeof key === 'symbol') name = `[${escape(symbolToString(key))}]`;
  else if (key === '__proto__') name = "['__proto__']";
  else if (!descriptor.enumerable) name = `[${escape(key)}]`;
  else name = isName(key) ? key : quoted(key);
  return `${name}: ${text}`;
}

// formatGetter tells of a getter; the option getters has it called.
function formatGetter(ctx, value, depth, { get, set }) {
  const label = set === undefined ? 'Getter' : 'Getter/Setter';
  if (!(ctx.getters === true || ctx.getters === (set === undefined ? 'get' : 'set'))) return `[${label}]`;
  let text;
  ctx.indentation += 2;
  try {
    const got = apply(get, value, []);
    const inner = formatValue(ctx, got, depth);
    text = typeof got === 'object' && got !== null ? `[${label}] ${inner}` : `[${label}: ${inner}]`;
  } catch (error) {
    const message = error === null || typeof error !== 'object' ? undefined : peek(error, 'message');
    text = `[${label}: <Inspection threw (${typeof message === 'string' ? message : 'undefined'})>]`;
  }
  ctx.indentation -= 2;
  return text;
}

function formatExport(ctx, namespace, depth, key) {
  let value;
  try {
    value = namespace[key];
  } catch {
    return '<uninitialized>'; // the module is still being evaluated
  }
  return formatValue(ctx, value, depth);
}
