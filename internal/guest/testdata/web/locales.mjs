// Writes prelude/web/intl/locales.js from this Node's own Intl (Unicode CLDR):
//
//   node testdata/web/locales.mjs > prelude/web/intl/locales.js
//
// Patterns are read back from formatted samples: d, n, y, h, m, s are numbers as they come, D, N, H, P are at least two
// digits, M and E are names as they stand in a date (L and C: alone), a is the half of the day; text is in quotes.
const LOCALES = ['en-US', 'en-GB', 'en-CA', 'en-AU', 'en-IN', 'de-DE', 'fr-FR', 'es-ES', 'it-IT', 'pt-BR', 'nl-NL',
  'sv-SE', 'ja-JP'];
const CURRENCIES = ('USD EUR GBP JPY CNY INR KRW BRL CAD AUD MXN NZD HKD TWD ILS VND PHP CHF SEK NOK DKK PLN CZK HUF ' +
  'RUB TRY ZAR SGD THB IDR MYR AED SAR EGP NGN UAH RON BGN CLP COP ARS PEN PKR KES XAF XOF KWD').split(' ');
const UNITS = Intl.supportedValuesOf('unit');

const TUESDAY = Date.UTC(2024, 2, 5, 3, 4, 9);
const parts = (locale, options, when = TUESDAY) =>
  new Intl.DateTimeFormat(locale, { timeZone: 'UTC', ...options }).formatToParts(when);
const text = (locale, options, when) => parts(locale, options, when).map((p) => p.value).join('');
const one = (locale, type, options, when) => parts(locale, options, when).find((p) => p.type === type)?.value;

const quote = (s) => (/[a-zA-Z']/.test(s) ? `'${s.replaceAll("'", "''")}'` : s);
const NUMBERS = { day: ['d', 'D'], month: ['n', 'N'], hour: ['h', 'H'], minute: ['m', 'P'], second: ['s', 'S'] };

function pattern(locale, options, names) {
  return parts(locale, options).map(({ type, value }) => {
    if (type === 'literal') return quote(value);
    if (type === 'year') return value.length === 2 ? 'Y' : 'y';
    if (type === 'dayPeriod') return 'a';
    if (type === 'weekday') return value === names.weekday[0] ? 'E' : 'C';
    if (type === 'month' && !/^\d/.test(value)) return value === names.month[0] ? 'M' : 'L';
    if (!NUMBERS[type]) throw new Error(`${locale}: unexpected part ${type}`);
    return NUMBERS[type][/^0/.test(value) ? 1 : 0];
  }).join('');
}

// dates lists the patterns of all sets of fields, bit by bit: weekday 1, day 2, month 4, year 8.
function dates(locale, month, weekday, only) {
  const out = [];
  for (let bits = 1; bits < 16; bits++) {
    if (only && (bits & only) !== only) continue;
    const options = {};
    if (bits & 8) options.year = 'numeric';
    if (bits & 4) options.month = month;
    if (bits & 2) options.day = 'numeric';
    if (bits & 1) options.weekday = weekday;
    const names = {
      month: [one(locale, 'month', { month, day: 'numeric' }), one(locale, 'month', { month })],
      weekday: [
        one(locale, 'weekday', { weekday, day: 'numeric', month: 'short', year: 'numeric' }), one(locale, 'weekday', { weekday }),
      ],
    };
    out.push(pattern(locale, options, names));
  }
  return out;
}
const diff = (list, from) => list.map((p, i) => (p === from[i] ? '' : p));

const cycle = (f) => Array.from({ length: f === 'month' ? 12 : 7 }, (_, i) =>
  f === 'month' ? Date.UTC(2024, i, 5, 3) : Date.UTC(2024, 2, 3 + i, 3)); // March 3, 2024 is a Sunday

function names(locale, field, width) {
  const alone = cycle(field).map((t) => one(locale, field, { [field]: width }, t));
  const inDate = cycle(field).map((t) =>
    one(locale, field, { day: 'numeric', month: 'short', year: 'numeric', ...{ [field]: width } }, t));
  return alone.join() === inDate.join() ? alone.join('|') : [...inDate, ...alone].join('|');
}

function times(locale) {
  const out = [];
  for (const hour12 of [true, false]) {
    for (const o of [{}, { minute: 'numeric' }, { minute: 'numeric', second: 'numeric' }]) {
      out.push(pattern(locale, { hour: 'numeric', hour12, ...o }, {}));
    }
  }
  return [...out, pattern(locale, { minute: 'numeric', second: 'numeric' }, {})];
}

function joins(locale) {
  const join = (options) => {
    const all = text(locale, options);
    const date = text(locale, { ...options, timeStyle: undefined, hour: undefined, minute: undefined });
    const time = text(locale, { timeStyle: options.timeStyle, hour: options.hour, minute: options.minute });
    return all.slice(date.length, all.length - time.length);
  };
  const h = { hour: 'numeric', minute: 'numeric' };
  return [
    ...['full', 'long', 'medium', 'short'].map((dateStyle) => join({ dateStyle, timeStyle: 'short' })),
    join({ month: 'long', day: 'numeric', weekday: 'long', ...h }), join({ month: 'long', day: 'numeric', ...h }),
    join({ month: 'short', day: 'numeric', ...h }),
    join({ month: 'numeric', day: 'numeric', ...h }), weekdayJoin(locale, h),
  ];
}

function weekdayJoin(locale, time) {
  const p = parts(locale, { weekday: 'long', ...time });
  return p[0].type === 'weekday' ? p[1].value : text(locale, { day: 'numeric', month: 'numeric', ...time }).match(/5日?(\D+)\d/)[1];
}

function styles(locale) {
  return ['full', 'long', 'medium', 'short'].map((dateStyle) => {
    const month = one(locale, 'month', { dateStyle });
    const weekday = one(locale, 'weekday', { dateStyle });
    return pattern(locale, { dateStyle }, { month: [month], weekday: [weekday] });
  });
}

function numbers(locale) {
  const nf = (o, v) => new Intl.NumberFormat(locale, o).formatToParts(v);
  const symbol = (type, v) => nf({}, v).find((p) => p.type === type)?.value;
  const shape = (o, v) => nf(o, v).map((p) =>
    p.type === 'integer' ? '0' : p.type === 'currency' ? '¤' : p.type === 'fraction' || p.type === 'decimal' ? '' : p.value)
    .join('');
  const euro = { style: 'currency', currency: 'EUR', currencyDisplay: 'narrowSymbol', maximumFractionDigits: 0 };
  return [
    symbol('decimal', 1.5), symbol('group', 1234567), nf({}, 1234)[1]?.type === 'group' ? '' : '2',
    nf({}, 1234567)[0].value.length === 2 ? '2' : '', symbol('minusSign', -1), shape({ style: 'percent' }, 0.01).replace('0', ''),
    shape(euro, 1), shape(euro, -1), shape({ ...euro, currencySign: 'accounting' }, -1),
    nf({ notation: 'scientific' }, 1).find((p) => p.type === 'exponentSeparator').value,
  ];
}

function currencies(locale) {
  const list = CURRENCIES.map((currency) => {
    const s = new Intl.NumberFormat(locale, { style: 'currency', currency }).formatToParts(1)
      .find((p) => p.type === 'currency').value;
    return s === currency ? '' : currency + s;
  });
  return list.filter(Boolean).join('|');
}

// compact lists the exponents where the suffix changes, "6M" or "6 million~ millions" (one, many); "10/9 mil M" is
// Spanish: from 10^10 on, in units of 10^9.
function compact(locale, compactDisplay) {
  const suffix = (v) => {
    const p = new Intl.NumberFormat(locale, { notation: 'compact', compactDisplay, useGrouping: false }).formatToParts(v);
    const at = p.findIndex((x) => x.type === 'compact');
    // "mil" for 1,000 in Portuguese: the number is left out.
    return at < 0 ? '' : (p[at - 1]?.type === 'literal' ? p[at - 1].value : '') + p[at].value;
  };
  const out = [];
  let last = '';
  for (let e = 3; e < 17; e++) {
    const [single, many] = [suffix(10 ** e), suffix(2 * 10 ** e)];
    const shown = new Intl.NumberFormat(locale, { notation: 'compact', compactDisplay }).formatToParts(2 * 10 ** e)
      .find((p) => p.type === 'integer').value.length;
    const at = shown > 1 ? `${e}/${e - shown + 1}` : e;
    if (many !== last && many !== '') out.push(`${at}${single === many ? many : `${single}~${many}`}`);
    last = many;
  }
  return out.join('|');
}

function unit(locale, name, unitDisplay) {
  const of = (v) => new Intl.NumberFormat(locale, { style: 'unit', unit: name, unitDisplay }).format(v).replace(/^[12]/, '');
  return of(1) === of(2) ? of(1) : `${of(1)}~${of(2)}`;
}

function units(locale) {
  if (locale === 'en-US') {
    return UNITS.map((u) => [u, ...['short', 'narrow', 'long'].map((d) => unit(locale, u, d))].join('!')).join('|');
  }
  return UNITS.filter((u) => unit(locale, u, 'short') !== unit('en-US', u, 'short'))
    .map((u) => `${u}!${unit(locale, u, 'short')}`).join('|');
}

// Zones whose abbreviation in the time zone database some locale prints; the rest print an offset.
const ABBREVIATED = ('EST,EDT:America/New_York CST,CDT:America/Chicago MST,MDT:America/Denver PST,PDT:America/Los_Angeles ' +
  'AST,ADT:America/Halifax AKST,AKDT:America/Anchorage HST:Pacific/Honolulu GMT,BST:Europe/London WET,WEST:Europe/Lisbon ' +
  'CET,CEST:Europe/Berlin EET,EEST:Europe/Athens MSK:Europe/Moscow IST:Asia/Kolkata JST:Asia/Tokyo KST:Asia/Seoul ' +
  'AEST,AEDT:Australia/Sydney ACST,ACDT:Australia/Adelaide AWST:Australia/Perth NZST,NZDT:Pacific/Auckland ' +
  'SAST:Africa/Johannesburg').split(' ');
const zoneName = (locale, timeZone, timeZoneName, when) =>
  new Intl.DateTimeFormat(locale, { timeZone, timeZoneName }).formatToParts(when).find((p) => p.type === 'timeZoneName').value;

// zones lists the abbreviations that a locale prints, with "=" and its own where that differs.
function zones(locale) {
  const out = [];
  for (const entry of ABBREVIATED) {
    const [abbreviations, timeZone] = entry.split(':');
    const times = [Date.UTC(2024, 0, 5), Date.UTC(2024, 6, 5)];
    if (timeZone.startsWith('Australia') || timeZone.endsWith('Auckland')) times.reverse();
    abbreviations.split(',').forEach((abbreviation, i) => {
      const name = zoneName(locale, timeZone, 'short', times[i]);
      if (!/^(GMT|UTC)[+\-\u2212]/.test(name)) out.push(name === abbreviation ? name : `${abbreviation}=${name}`);
    });
  }
  return out.join(' ');
}

const out = {};
for (const l of LOCALES) {
  const numeric = dates(l, 'numeric', 'short');
  const short = dates(l, 'short', 'short', 4);
  const long = dates(l, 'long', 'short', 4);
  const half = (h) => one(l, 'dayPeriod', { hour: 'numeric', hour12: true }, Date.UTC(2024, 2, 5, h));
  const record = {
    number: numbers(l), currency: currencies(l), compact: compact(l, 'short'), compactLong: compact(l, 'long'), unit: units(l),
    numeric, short, long: diff(long, short),
    numericDay: diff(dates(l, 'numeric', 'long'), numeric), longDay: diff(dates(l, 'long', 'long', 4), long),
    style: styles(l), time: times(l), join: joins(l), half: [half(3), half(15)],
    cycle: new Intl.DateTimeFormat(l, { hour: 'numeric' }).resolvedOptions().hourCycle,
    months: names(l, 'month', 'long'), mon: names(l, 'month', 'short'), m: names(l, 'month', 'narrow'),
    days: names(l, 'weekday', 'long'), day: names(l, 'weekday', 'short'), e: names(l, 'weekday', 'narrow'),
    zones: zones(l), gmt: zoneName(l, 'America/New_York', 'shortOffset', 0).split('5')[0],
  };
  out[l] = {};
  for (const [key, value] of Object.entries(record)) {
    const text = Array.isArray(value) ? value.join('|') : value;
    if (l === 'en-US' || text !== out['en-US'][key]) out[l][key] = text;
  }
}

const named = (currency, v) => new Intl.NumberFormat('en-US', {
  style: 'currency', currency, currencyDisplay: 'name', maximumFractionDigits: 0,
}).formatToParts(v).find((p) => p.type === 'currency').value;
const narrow = (currency) => new Intl.NumberFormat('en-US', { style: 'currency', currency, currencyDisplay: 'narrowSymbol' })
  .formatToParts(1).find((p) => p.type === 'currency').value;

const line = (key, text) => `  ${/^\w+$/.test(key) ? key : JSON.stringify(key).replaceAll('"', "'")}: ${quoted(text)},`;
const visible = (text) => text.replace(/[\u00a0\u2009\u202f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
const quoted = (text) => visible(text.includes("'") ? JSON.stringify(text) : `'${text}'`);

console.log(`// Made by testdata/web/locales.mjs from Unicode CLDR ${process.versions.cldr} (Unicode License v3): do not edit.
// A field that a locale lacks is en-US's.
export const LOCALES = {
  __proto__: null,
${LOCALES.map((l) => `'${l}': {\n${Object.entries(out[l]).map(([k, v]) => line(k, v)).join('\n')}\n},`).join('\n')}
};

// CODE one many [narrow symbol]
export const CURRENCIES = ${quoted(CURRENCIES.map((c) =>
    [c, named(c, 1), named(c, 2), narrow(c) === c ? '' : narrow(c)].join('!')).join('|'))};`);
