// Calls of Intl as programs make them, drawn by a generator of its own so that every engine makes the same. calls returns what each
// gives, as [locale, service, options, value, result]; an exception is {throws, message}.
function calls(locales, each) {
  let state = 1;
  const below = (n) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % n;
  };
  const pick = (list) => list[below(list.length)];
  const some = (choices) => {
    const options = {};
    for (const [name, values] of Object.entries(choices)) {
      const value = pick(values);
      if (value !== undefined) options[name] = value;
    }
    return options;
  };
  const no = undefined;
  const dates = [Date.UTC(2024, 0, 1), Date.UTC(2024, 2, 5, 3, 4, 9), Date.UTC(2024, 4, 15, 12, 30, 45), Date.UTC(2024, 7, 23, 15, 9, 5),
    Date.UTC(2024, 11, 31, 23, 59, 58), Date.UTC(1999, 8, 9, 9, 9, 9), Date.UTC(2025, 5, 2, 13)];
  const numbers = [0, 1, 2, 3, 5, 11, 21, 25, 100, 1234.5, -1234.567, 0.126, 12345678.9, 1e6, 2e6, 999999, -5, 1.5, 1e9, 5.5e9, 1e13, -0, 42];
  const units = ['kilometer', 'liter', 'hour', 'day', 'celsius', 'kilometer-per-hour', 'byte', 'percent', 'kilogram', 'minute'];
  const kinds = {
    number: () => ['NumberFormat', some({
      minimumFractionDigits: [no, no, no, 2], maximumFractionDigits: [no, no, 3, 2], useGrouping: [no, no, no, false, 'always', 'min2'],
      signDisplay: [no, no, no, 'always', 'exceptZero'],
    }), pick(numbers)],
    percent: () => ['NumberFormat', { style: 'percent', ...some({ maximumFractionDigits: [no, 1] }) }, pick(numbers)],
    currency: () => ['NumberFormat', {
      style: 'currency', currency: pick(['USD', 'EUR', 'GBP', 'JPY', 'CHF', 'PLN', 'CAD', 'MXN', 'INR', 'SEK']),
      ...some({ currencyDisplay: [no, no, no, 'code', 'name'], maximumFractionDigits: [no, no, 0] }),
    }, pick(numbers)],
    compact: () => ['NumberFormat', { notation: 'compact', ...some({ compactDisplay: [no, 'short', 'long'] }) }, pick(numbers)],
    unit: () => ['NumberFormat', {
      style: 'unit', unit: pick(units), ...some({ unitDisplay: [no, 'short', 'long', 'narrow'] }),
    }, pick(numbers)],
    date: () => ['DateTimeFormat', {
      timeZone: 'UTC', ...some({
        year: [no, 'numeric', '2-digit'], month: [no, 'numeric', '2-digit', 'short', 'long'], day: [no, 'numeric', '2-digit'],
        weekday: [no, no, 'short', 'long'],
      }),
    }, pick(dates)],
    style: () => ['DateTimeFormat', {
      timeZone: 'UTC', ...some({ dateStyle: ['full', 'long', 'medium', 'short', no], timeStyle: [no, 'short', 'medium', 'long', 'full'] }),
    }, pick(dates)],
    both: () => ['DateTimeFormat', {
      timeZone: 'UTC', year: 'numeric', month: pick(['numeric', '2-digit', 'short', 'long']), day: pick(['numeric', '2-digit']),
      hour: pick(['numeric', '2-digit']), minute: '2-digit', ...some({ second: [no, '2-digit'] }),
    }, pick(dates)],
    time: () => ['DateTimeFormat', {
      timeZone: 'UTC', hour: pick(['numeric', '2-digit']), minute: '2-digit', ...some({ second: [no, '2-digit'] }),
    }, pick(dates)],
    odd: () => ['DateTimeFormat', {
      timeZone: 'UTC', ...some({ era: [no, 'short'], calendar: [no, 'buddhist'], numberingSystem: [no, 'arab'] }), year: 'numeric', month: 'long',
    }, pick(dates)],
    list: () => ['ListFormat', some({ type: [no, 'disjunction', 'unit'], style: [no, 'short', 'narrow'] }), ['A', 'B', 'C', 'D'].slice(0, below(4) + 1)],
    relative: () => ['RelativeTimeFormat', some({ numeric: [no, 'auto'], style: [no, no, 'short', 'narrow'] }),
      [pick([-1, 0, 1, -2, 2, 5, -5, 21, -0, 1.5, 1000]), pick(['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'])]],
    plural: () => ['PluralRules', some({ type: [no, no, 'ordinal'] }), pick([0, 1, 2, 3, 4, 5, 11, 12, 21, 22, 100, 1.5, 1e6, 0.5, 101, 103])],
    collation: () => ['Collator', some({ numeric: [no, true], sensitivity: [no, 'base'] }),
      [pick(['a', 'Z', 'z', 'item10', '\u00c9', '\u00df']), pick(['b', 'a', 'o', 'n', 'item9', 'e', 'zz'])]],
  };
  const methods = { PluralRules: 'select', Collator: 'compare' };
  const all = [];
  for (const locale of locales) {
    for (const kind of Object.values(kinds)) {
      for (let i = 0; i < each; i++) {
        const [service, options, value] = kind();
        let result;
        try {
          const formatter = new Intl[service](locale, options);
          const method = methods[service] ?? 'format';
          result = Array.isArray(value) && service !== 'ListFormat' ? formatter[method](...value) : formatter[method](value);
        } catch (error) {
          result = { throws: error.name, message: error.message };
        }
        all.push([locale, service, JSON.stringify(options), JSON.stringify(value), result]);
      }
    }
  }
  return all;
}
