// Writes prelude/web/intl/locales.js from this Node's own Intl (Unicode CLDR):
//
//   node testdata/web/locales.mjs > prelude/web/intl/locales.js
//
// Patterns are read back from formatted samples: d, n, y, h, m, s are numbers as they come, D, N, H, P are at least two
// digits, M and E are names as they stand in a date (L and C: alone), a is the half of the day; text is in quotes.
const LOCALES = ['en-US', 'en-GB', 'en-CA', 'en-AU', 'en-IN', 'de-DE', 'fr-FR', 'es-ES', 'it-IT', 'pt-BR', 'nl-NL',
  'sv-SE', 'ja-JP', 'de-AT', 'de-CH', 'fr-CA', 'fr-CH', 'es-MX', 'pt-PT', 'da-DK', 'nb-NO', 'fi-FI', 'pl-PL', 'ru-RU', 'uk-UA', 'cs-CZ',
  'tr-TR', 'zh-CN', 'zh-TW', 'ko-KR', 'id-ID', 'hu-HU', 'ro-RO', 'el-GR', 'en-NZ', 'en-ZA', 'en-IE', 'sk-SK', 'hr-HR', 'nl-BE'];
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
    if (type === 'era') return 'G';
    if (type === 'timeZoneName') return 'z';
    if (type === 'weekday') return value === names.weekday[0] ? 'E' : 'C';
    if (type === 'month' && !/^\d+$/.test(value)) return value === names.month[0] ? 'M' : 'L';
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
const STYLES = ['full', 'long', 'medium', 'short'];
const diff = (list, from) => list.map((p, i) => (p === from[i] ? '' : p));

const cycle = (f) => Array.from({ length: f === 'month' ? 12 : 7 }, (_, i) =>
  f === 'month' ? Date.UTC(2024, i, 5, 3) : Date.UTC(2024, 2, 3 + i, 3)); // March 3, 2024 is a Sunday

function names(locale, field, width) {
  let alone = cycle(field).map((t) => one(locale, field, { [field]: width }, t));
  const inDate = cycle(field).map((t) =>
    one(locale, field, { day: 'numeric', month: 'short', year: 'numeric', ...{ [field]: width } }, t));
  // Some have a form of their own beside the year only.
  if (field === 'month' && alone.join() === inDate.join()) alone = cycle(field).map((t) => one(locale, field, { month: width, year: 'numeric' }, t));
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

// periods lists the words that styles of times have for each hour, where they are others than those of halves.
function periods(locale) {
  const all = Array.from({ length: 24 }, (_, h) => one(locale, 'dayPeriod', { timeStyle: 'short' }, Date.UTC(2024, 2, 5, h)));
  return all.every((word, h) => word === half(locale, h)) ? [] : all;
}
const half = (locale, h) => one(locale, 'dayPeriod', { hour: 'numeric' }, Date.UTC(2024, 2, 5, h));
const timeStyles = (locale) => STYLES.map((timeStyle) =>
  pattern(locale, { timeStyle }, {}).replace(/a/, periods(locale).length > 0 ? 'B' : 'a'));

// mixed has the patterns of numbers where the day, the month or both are asked for in two digits: without the year, with it,
// the month and the year alone, and with a year of two digits.
function mixed(locale) {
  const out = [];
  for (const year of [undefined, 'numeric']) {
    for (const [day, month] of [['2-digit', 'numeric'], ['numeric', '2-digit'], ['2-digit', '2-digit']]) {
      out.push(pattern(locale, { year, day, month }, {}));
    }
  }
  out.push(pattern(locale, { year: 'numeric', month: '2-digit' }, {}));
  for (const [day, month] of [['2-digit', 'numeric'], ['numeric', '2-digit'], ['2-digit', '2-digit']]) {
    out.push(pattern(locale, { year: '2-digit', day, month }, {}));
  }
  return out;
}

// eras has the patterns of years with their era, in a calendar: alone, with the number of the month, and of the day; with the short name of the month, and the
// day; with the long name, and the day.
const ERA_FIELDS = [{}, { month: 'numeric' }, { month: 'numeric', day: 'numeric' }, ...['short', 'long'].flatMap((month) => [{ month }, { month, day: 'numeric' }])];
function eras(locale, calendar, era) {
  const names = { month: [one(locale, 'month', { month: 'short', day: 'numeric' }), one(locale, 'month', { month: 'long', day: 'numeric' })], weekday: [] };
  return ERA_FIELDS.map((fields) => {
    const month = fields.month && one(locale, 'month', { calendar, year: 'numeric', month: fields.month, day: 'numeric' });
    return pattern(locale, { calendar, era, year: 'numeric', ...fields }, { ...names, month: [month] });
  });
}
const eraNames = (locale, calendar, whens) =>
  ['short', 'long', 'narrow'].flatMap((era) => whens.map((when) => one(locale, 'era', { calendar, era }, when)));

// lists has what stands in lists, by type and style: between two, between the first ones, before the last.
function lists(locale) {
  const out = [];
  for (const type of ['conjunction', 'disjunction', 'unit']) {
    for (const style of ['long', 'short', 'narrow']) {
      const between = (items) => new Intl.ListFormat(locale, { type, style }).formatToParts(items)
        .filter((p) => p.type === 'literal').map((p) => p.value);
      const [two, many] = [between(['X', 'Y']), between(['W', 'X', 'Y', 'Z'])];
      if (many.length === 0) {
        out.push('~~');
        continue;
      }
      if (two.length !== 1 || many.length !== 3 || many[0] !== many[1]) throw new Error(`${locale}: unexpected list`);
      out.push([two[0], many[0], many[2]].join('~'));
    }
  }
  return out.join('|');
}

// relative has the patterns of relative times by unit and style, past!future!words; a word is its number and the text.
function relative(locale) {
  const out = [];
  for (const unit of ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year']) {
    for (const style of ['long', 'short', 'narrow']) {
      const always = new Intl.RelativeTimeFormat(locale, { style });
      const auto = new Intl.RelativeTimeFormat(locale, { style, numeric: 'auto' });
      const text = (sign) => forms(locale, (n) => always.formatToParts(sign * n || (sign < 0 ? -0 : 0), unit)
        .map((p) => (p.type === 'literal' ? p.value : p.type === 'integer' ? '{' : '')).join(''));
      const words = [-3, -2, -1, 0, 1, 2, 3].filter((n) => auto.formatToParts(n, unit).length === 1 && auto.format(n, unit) !== always.format(n, unit))
        .map((n) => `${n}=${auto.format(n, unit)}`);
      out.push([text(-1), text(1), ...words].join('!'));
    }
  }
  return out.join('|');
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
    const weekday = one(locale, 'weekday', { weekday: 'long', day: 'numeric', month: 'short', year: 'numeric' });
    return pattern(locale, { dateStyle }, { month: [month], weekday: [weekday] });
  });
}

function numbers(locale) {
  const nf = (o, v) => new Intl.NumberFormat(locale, o).formatToParts(v);
  const symbol = (type, v) => nf({}, v).find((p) => p.type === type)?.value;
  const shape = (o, v) => nf(o, v).map((p) =>
    p.type === 'integer' ? '0' : p.type === 'currency' ? '¤' : p.type === 'fraction' || p.type === 'decimal' ? '' : p.value)
    .join('');
  // A sign that stands before the number is marked.
  const percent = (text) => (text[0] === '0' ? text.slice(1) : `<${text.replace('0', '')}`);
  // Separators of amounts of money, where they are others.
  const money = (type, v) => {
    const own = nf({ style: 'currency', currency: 'EUR' }, v).find((p) => p.type === type)?.value;
    return own === undefined || own === symbol(type, v) ? '' : own;
  };
  const euro = { style: 'currency', currency: 'EUR', currencyDisplay: 'narrowSymbol', maximumFractionDigits: 0 };
  return [
    symbol('decimal', 1.5), symbol('group', 1234567), nf({}, 1234)[1]?.type === 'group' ? '' : '2',
    nf({}, 1234567)[0].value.length === 2 ? '2' : '', symbol('minusSign', -1), percent(shape({ style: 'percent' }, 0.01)),
    shape(euro, 1), shape(euro, -1), shape({ ...euro, currencySign: 'accounting' }, -1),
    nf({ notation: 'scientific' }, 1).find((p) => p.type === 'exponentSeparator').value,
    money('group', 1234567), money('decimal', 1.5),
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

// NAMED are the currencies whose names are here.
const NAMED = 'USD EUR GBP JPY CNY INR CHF CAD AUD MXN BRL SEK NOK DKK PLN CZK HUF RON BGN TRY RUB UAH KRW ZAR NZD SGD HKD THB ILS AED'.split(' ');

// money lists the names of currencies in other languages than English, with what stands between them and the number.
function money(locale) {
  if (locale.startsWith('en') || locale === 'tr-TR') return ''; // ICU's own in Turkish have the symbol, too
  return NAMED.map((currency) => currency + forms(locale, (n) => {
    const all = new Intl.NumberFormat(locale, { style: 'currency', currency, currencyDisplay: 'name', minimumFractionDigits: 0 }).formatToParts(n);
    if (all[0].type !== 'integer') return '?'; // it stands before the number: such are left out
    return all.filter((p) => p.type === 'literal' || p.type === 'currency').map((p) => p.value).join('');
  })).join('|');
}

// Forms of a text by plural category: one~other~few~many~two~zero, without those at the end that are as other.
const CATEGORIES = ['one', 'other', 'few', 'many', 'two', 'zero'];
function forms(locale, text) {
  const rules = new Intl.PluralRules(locale);
  const other = [5, 2, 20, 1.5, 0].find((n) => rules.select(n) === 'other');
  const all = CATEGORIES.map((category) => {
    const n = category === 'other' ? other : [1, 2, 3, 5, 0, 1.5].find((x) => rules.select(x) === category);
    // French has a word of its own for exactly one thousand.
    return n === undefined ? undefined : text(n === 1 && rules.select(1.2) === 'one' ? 1.2 : n);
  });
  all[1] ??= text(2);
  all[0] ??= all[1];
  while (all.length > 2 && (all.at(-1) === undefined || all.at(-1) === all[1])) all.pop();
  if (all.length === 2 && all[0] === all[1]) all.pop();
  return all.map((form) => form ?? '').join('~');
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
    const many = forms(locale, (n) => suffix(n * 10 ** e));
    const shown = new Intl.NumberFormat(locale, { notation: 'compact', compactDisplay }).formatToParts(2 * 10 ** e)
      .find((p) => p.type === 'integer').value.length;
    const at = shown > 1 ? `${e}/${e - shown + 1}` : e;
    if (many !== last && many !== '') out.push(`${at}${many}`);
    last = many;
  }
  return out.join('|');
}

function unit(locale, name, unitDisplay) {
  return forms(locale, (n) => {
    const all = new Intl.NumberFormat(locale, { style: 'unit', unit: name, unitDisplay, useGrouping: false }).formatToParts(n);
    const number = all.findIndex((p) => p.type === 'integer');
    if (number > 0) return '?'; // what stands before the number is left out
    return all.filter((p) => p.type === 'literal' || p.type === 'unit' || p.type === 'percentSign').map((p) => p.value).join('');
  });
}

// units lists name!short!narrow!long, without those that are as in en-US; of en-US also without its compound ones.
const COMPOUND = ['kilometer-per-hour', 'mile-per-hour', 'meter-per-second', 'mile-per-gallon', 'megabyte-per-second',
  'megabit-per-second', 'kilometer-per-liter', 'gram-per-liter', 'liter-per-hour'];
function units(locale) {
  const entry = (l, u) => [u, ...['short', 'narrow', 'long'].map((d) => unit(l, u, d))].join('!');
  if (locale === 'en-US') return UNITS.map((u) => entry(locale, u)).join('|');
  return [...UNITS, ...(locale.startsWith('en') ? [] : COMPOUND)].map((u) => entry(locale, u))
    .filter((e) => e !== entry('en-US', e.split('!')[0])).join('|');
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

// halves lists the words for the halves of the day, or where they are more, for each hour.
function halves(locale) {
  const all = Array.from({ length: 24 }, (_, h) => one(locale, 'dayPeriod', { hour: 'numeric', hour12: true }, Date.UTC(2024, 2, 5, h)));
  const halves = [all[3], all[15]];
  return all.every((word, h) => word === halves[h < 12 ? 0 : 1]) ? halves : all;
}

const out = {};
for (const l of LOCALES) {
  const numeric = dates(l, 'numeric', 'short');
  const short = dates(l, 'short', 'short', 4);
  const long = dates(l, 'long', 'short', 4);
  const record = {
    number: numbers(l), currency: currencies(l), money: money(l), compact: compact(l, 'short'), compactLong: compact(l, 'long'), unit: units(l),
    numeric, short, long: diff(long, short),
    numericDay: diff(dates(l, 'numeric', 'long'), numeric), shortDay: diff(dates(l, 'short', 'long', 4), short), longDay: diff(dates(l, 'long', 'long', 4), long),
    style: styles(l), time: times(l), timeStyle: timeStyles(l), period: periods(l), mixed: mixed(l), list: lists(l), relative: relative(l), era: eras(l, 'gregory', 'short'), eras: eraNames(l, 'gregory', [Date.UTC(-5, 0), 0]),
    // First those where the era is not asked for.
    buddhist: [...eras(l, 'buddhist'), ...eras(l, 'buddhist', 'short')],
    be: [...ERA_FIELDS.map((fields) => one(l, 'era', { calendar: 'buddhist', year: 'numeric', ...fields })), ...eraNames(l, 'buddhist', [0])], join: joins(l), half: halves(l),
    cycle: new Intl.DateTimeFormat(l, { hour: 'numeric' }).resolvedOptions().hourCycle,
    months: names(l, 'month', 'long'), mon: names(l, 'month', 'short'), m: names(l, 'month', 'narrow'),
    days: names(l, 'weekday', 'long'), day: names(l, 'weekday', 'short'), e: names(l, 'weekday', 'narrow'),
    zones: zones(l), utc: zoneName(l, 'UTC', 'long', 0), gmt: zoneName(l, 'America/New_York', 'shortOffset', 0).split('5')[0],
  };
  out[l] = {};
  for (const [key, value] of Object.entries(record)) {
    const text = Array.isArray(value) ? value.join('|') : value;
    if (key === 'money' && (text === '' || out[LOCALES.find((other) => other.slice(0, 2) === l.slice(0, 2))]?.money === text)) continue;
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
