// What the cases in *.txt are written with, evaluated in the guest and in Node.js alike. Here are only helpers; nothing
// of them is under test.

// show turns any value into JSON that tells apart what JSON does not.
function show(value) {
  const mark = (kind, ...rest) => ({ $: kind, ...(rest.length > 0 && { of: rest[0] }) });
  const plain = (v) => {
    if (v === undefined) return mark('undefined');
    if (typeof v === 'bigint') return mark(`${v}n`);
    if (typeof v === 'symbol' || typeof v === 'function') return mark(typeof v);
    if (typeof v === 'number') return Number.isFinite(v) && !Object.is(v, -0) ? v : mark(Object.is(v, -0) ? '-0' : `${v}`);
    if (typeof v !== 'object' || v === null) return v;
    if (v instanceof Error) return mark('Error', plain([v.name, v.message, v instanceof DOMException ? v.code : 0]));
    if (v instanceof Date) return mark('Date', v.getTime());
    if (v instanceof RegExp) return mark('RegExp', `${v} ${v.lastIndex}`);
    if (v instanceof Map || v instanceof Set) return mark(v.constructor.name, plain([...v]));
    if (v instanceof ArrayBuffer) return mark('ArrayBuffer', [...new Uint8Array(v)]);
    if (v instanceof DataView) return mark('DataView', [...new Uint8Array(v.buffer, v.byteOffset, v.byteLength)]);
    if (ArrayBuffer.isView(v)) return mark(v.constructor.name, plain(Array.from(v)));
    if (v instanceof Number || v instanceof String || v instanceof Boolean) return mark('boxed', v.valueOf());
    if (Array.isArray(v)) return Array.from(v, plain);
    return Object.fromEntries(Object.entries(v).map(([key, item]) => [key, plain(item)]));
  };
  return JSON.stringify(plain(value));
}

// outcomes evaluates expressions in turn; an exception is the class of its error, since engines word them differently.
async function outcomes(expressions) {
  const all = [];
  for (const expression of expressions) {
    try {
      const value = (0, eval)(expression);
      all.push(show(value instanceof Promise ? await value : value));
    } catch (error) {
      all.push(JSON.stringify({ throws: error.name }));
    }
  }
  return all;
}

globalThis.require = require;
// heard collects what callbacks are given until as many as wanted have come.
globalThis.heard = (wanted, f) => new Promise((resolve) => {
  const all = [];
  f((...args) => {
    if (all.push(args) === wanted) resolve(all);
  });
});

const parts = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
const look = (url) => parts.map((name) => url[name]);
// url gives all parts of an address, href the whole of it.
globalThis.url = (input, base) => look(new URL(input, base));
globalThis.href = (input, base) => new URL(input, base).href;
// set changes one part of an address, with its query object made before.
globalThis.set = (address, name, ...values) => values.map((value) => {
  const url = new URL(address);
  const query = url.searchParams;
  url[name] = value;
  return [url.href, `${query}`];
});

// Two moments: a Tuesday afternoon in winter, a Monday around noon in summer.
globalThis.winter = new Date(Date.UTC(2024, 2, 5, 15, 4, 9, 78));
globalThis.summer = new Date(Date.UTC(2024, 6, 15, 12, 30, 45, 999));
globalThis.midnight = new Date(Date.UTC(2023, 11, 31));

const textOf = (Format) => (options, values, ...locales) => {
  const all = (locales.length > 0 ? locales : ['en-US']).map((locale) => {
    const format = new Format(locale, options);
    return values.map((value) => format.format(value));
  });
  return all.length === 1 ? all[0] : all;
};
// num and date format values with the same options, in one locale or several.
globalThis.num = textOf(Intl.NumberFormat);
globalThis.date = (options, ...rest) => textOf(Intl.DateTimeFormat)({ timeZone: 'UTC', ...options }, ...rest);
globalThis.numParts = (options, value, locale = 'en-US') => new Intl.NumberFormat(locale, options).formatToParts(value);
globalThis.dateParts = (options, value, locale = 'en-US') =>
  new Intl.DateTimeFormat(locale, { timeZone: 'UTC', ...options }).formatToParts(value);

globalThis.bytes = (...values) => new Uint8Array(values);
globalThis.throws = (f) => {
  try {
    f();
    return 'nothing';
  } catch (error) {
    return [error.name, error.code ?? null];
  }
};
