// Writes prelude/web/intl/names.js from this Node's own Intl (Unicode CLDR):
//
//   node testdata/web/names.mjs > prelude/web/intl/names.js
const small = [...'abcdefghijklmnopqrstuvwxyz'];
const words = (n, from = ['']) => (n === 0 ? from : words(n - 1, from.flatMap((w) => small.map((c) => w + c))));
const upper = (list) => list.map((w) => w.toUpperCase());
const regions = [...upper(words(2)), ...Array.from({ length: 1000 }, (_, i) => String(i).padStart(3, '0'))];
const languages = [...words(2), ...words(3)].filter((w) => Intl.getCanonicalLocales(w)[0] === w);

function names(type, codes, options) {
  const display = new Intl.DisplayNames('en', { type, fallback: 'none', ...options });
  return codes.map((code) => [code, display.of(code)]).filter(([, name]) => name !== undefined);
}
const known = names('language', languages);
const tags = known.flatMap(([code]) => [...upper(words(2)), '001', '419', 'Hans', 'Hant', 'Latn'].map((r) => `${code}-${r}`));
const standard = new Map(names('language', tags, { languageDisplay: 'standard' }));
const dialects = names('language', tags).filter(([tag, name]) => standard.get(tag) !== name && Intl.getCanonicalLocales(tag)[0] === tag);
const scripts = names('script', words(4).map((w) => w[0].toUpperCase() + w.slice(1)));
const shorter = ['region', 'language', 'script'].flatMap((type) => {
  const codes = { region: regions, language: languages, script: scripts.map(([code]) => code) }[type];
  const long = new Map(names(type, codes));
  return names(type, codes, { style: 'short' }).filter(([code, name]) => long.get(code) !== name);
});
const fields = ['era', 'year', 'quarter', 'month', 'weekOfYear', 'weekday', 'day', 'dayPeriod', 'hour', 'minute', 'second', 'timeZoneName'];

const data = {
  region: names('region', regions),
  language: [...known, ...dialects],
  currency: names('currency', upper(words(3))),
  script: scripts,
  calendar: names('calendar', Intl.supportedValuesOf('calendar')),
  dateTimeField: names('dateTimeField', fields),
  short: shorter,
};
// A text of Latin-1 takes half the memory.
const latin = (name) => name.replaceAll('’', "'").replaceAll('–', '~');
const line = (list) => JSON.stringify(`|${list.map(([code, name]) => `${code}:${latin(name)}|`).join('')}`);

// What Node has locales of: the languages, and the regions of those that have data in locales.js.
const { LOCALES } = await import('../../prelude/web/intl/locales.js');
const ours = new Set(Object.keys(LOCALES).map((name) => name.split('-')[0]));
const own = (tag) => [Intl.NumberFormat, Intl.DateTimeFormat].some((F) => new F(tag).resolvedOptions().locale === tag);
const others = [...new Set(Intl.NumberFormat.supportedLocalesOf(languages).map((tag) => tag.split('-')[0]))].filter((tag) => !ours.has(tag) && tag !== 'no');
const elsewhere = [...ours].flatMap((language) => regions.filter((r) => !LOCALES[`${language}-${r}`] && own(`${language}-${r}`)).map((r) => `${language}-${r}`));

console.log(`// Made by testdata/web/names.mjs from Unicode CLDR ${process.versions.cldr} (Unicode License v3): do not edit.
// Names in English, as |code:name| with ' for ’ and ~ for –, and the locales that Node has and locales.js has not.
export const NAMES = {
  __proto__: null,
${Object.entries(data).map(([type, list]) => `  ${type}: ${line(list)},`).join('\n')}
};
export const ABSENT = '|${[...others, ...elsewhere].join('|')}|';
export const CURRENCIES = '${Intl.supportedValuesOf('currency').join('|')}';`);
