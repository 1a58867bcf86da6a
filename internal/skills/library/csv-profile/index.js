/**
 * Skill: csv-profile
 * Purpose: Profiles a CSV text or rows, and cleans them.
 * Version: 1.0
 * Usage: import profile from '/skills/csv-profile/index.js'; const {columns, cleaned} = await profile({text, output: 'rows'})
 */

const DELIMITERS = [',', ';', '\t', '|'];
const MISSING = ['', 'na', 'n/a', '#n/a', 'nan', 'null', 'nil', '-', '--'];
const MAX_COLUMNS = 1000;
const SAMPLE = 64 * 1024; // characters in which the delimiter is looked for
const MOST = 0.9; // share of the values that have to fit a column's type

export default async function profile(input) {
  const options = checked(input);
  const problems = [];
  const table = options.rows ? fromRows(options.rows) : fromText(options, problems);
  options.tableDecimal = options.decimal ?? decimalOf(table);
  const columns = table.names.map((name, i) => {
    // Each column is worked on by itself, so that only one index of values is in memory.
    const { described, cleaned } = column(name, table.values[i], options);
    if (options.output !== 'profile') table.values[i] = cleaned;
    return described;
  });
  const result = { rows: table.count, delimiter: table.delimiter, columns, problems };
  if (options.output === 'rows') result.cleaned = toRows(table);
  if (options.output === 'csv') result.cleaned = toCSV(table, problems);
  return result;
}

function checked(input) {
  const options = { header: true, output: 'profile', ...input };
  const oneOf = (name, all) => {
    if (options[name] !== undefined && !all.includes(options[name])) throw new TypeError(`${name} has to be one of ${all.map((v) => JSON.stringify(v)).join(', ')}`);
  };
  if ((typeof options.text === 'string') === Array.isArray(options.rows)) throw new TypeError('give either text, a CSV text, or rows, a list of objects');
  oneOf('delimiter', DELIMITERS);
  oneOf('header', [true, false]);
  oneOf('decimal', ['.', ',']);
  oneOf('dates', ['dmy', 'mdy']);
  oneOf('output', ['profile', 'rows', 'csv']);
  if (options.year !== undefined && !(Number.isInteger(options.year) && options.year > 0 && options.year < 10000)) throw new TypeError('year has to be a year such as 2024');
  const missing = options.missing ?? MISSING;
  if (!Array.isArray(missing) || missing.some((m) => typeof m !== 'string')) throw new TypeError('missing has to be a list of texts');
  options.missing = new Set(['', ...missing.map((m) => m.trim().toLowerCase())]);
  return options;
}

// ---- Reading

// fromText returns the columns of a CSV text: {names, values: one list for each column, count, delimiter}.
function fromText({ text, delimiter, header }, problems) {
  if (text.startsWith('\ufeff')) text = text.slice(1);
  if (!text.includes('\n')) text = text.replaceAll('\r', '\n');
  const said = /^sep=([,;\t|])\r?\n/i.exec(text); // a line that Excel writes
  if (said) {
    text = text.slice(said[0].length);
    delimiter ??= said[1];
  }
  delimiter ??= findDelimiter(text);
  const records = parse(text, delimiter, problems);
  const first = header ? (records.shift() ?? []) : [];
  let width = first.length;
  let shorter = 0;
  const shape = header ? first.length : (records[0]?.length ?? 0);
  let shorterAt = 0;
  let longer = 0;
  let longerAt = 0;
  records.forEach((record, i) => {
    if (record.length < shape && shorter++ === 0) shorterAt = i + 1;
    if (record.length > shape && longer++ === 0) longerAt = i + 1;
    if (record.length > width) width = record.length;
  });
  if (width > MAX_COLUMNS) throw new RangeError(`a row has ${width} columns, more than ${MAX_COLUMNS}: is the delimiter ${JSON.stringify(delimiter)} right? Give delimiter`);
  if (shorter > 0) problems.push(`${shorter} ${shorter === 1 ? 'row has' : 'rows have'} fewer values than columns, the first is row ${shorterAt}`);
  if (longer > 0) problems.push(`${longer} ${longer === 1 ? 'row has' : 'rows have'} more values than columns, the first is row ${longerAt}; the values are in columns of their own`);
  const names = unique(Array.from({ length: width }, (_, i) => first[i] ?? ''), problems);
  const values = names.map((_, i) => records.map((record) => record[i] ?? ''));
  return { names, values, count: records.length, delimiter };
}

function fromRows(rows) {
  const places = new Map();
  rows.forEach((row, i) => {
    if (row === null || typeof row !== 'object' || Array.isArray(row)) throw new TypeError(`rows[${i}] is no object: give rows such as {name: value}`);
    for (const name of Object.keys(row)) if (!places.has(name)) places.set(name, places.size);
    if (places.size > MAX_COLUMNS) throw new RangeError(`the rows have more than ${MAX_COLUMNS} different fields: give fewer`);
  });
  const names = [...places.keys()];
  const values = names.map((name) => rows.map((row) => (Object.hasOwn(row, name) ? row[name] : null)));
  return { names: unique(names, []), values, count: rows.length, delimiter: null };
}

// unique returns names without outer spaces, none empty and none twice.
function unique(names, problems) {
  const taken = new Set();
  const next = new Map();
  return names.map((given, i) => {
    const name = tidy(given).replace(/\s+/g, ' ') || `column_${i + 1}`;
    let free = name;
    for (let n = next.get(name) ?? 2; taken.has(free); n++) {
      free = `${name}_${n}`;
      next.set(name, n + 1);
    }
    if (free !== name) problems.push(`the name ${JSON.stringify(name)} occurs twice; the later column is ${JSON.stringify(free)}`);
    taken.add(free);
    return free;
  });
}

// findDelimiter returns the delimiter with which most lines of the beginning have as many values as the first one.
function findDelimiter(text) {
  const sample = text.slice(0, SAMPLE);
  let best = ',';
  let bestScore = 0;
  for (const delimiter of DELIMITERS) {
    const records = parse(sample, delimiter, []);
    if (sample.length < text.length && records.length > 1) records.pop(); // cut off
    const width = records[0]?.length ?? 0;
    if (width < 2) continue;
    const score = records.filter((record) => record.length === width).length / records.length + width / 1e6;
    if (score > bestScore) [best, bestScore] = [delimiter, score];
  }
  return best;
}

// parse returns the records of a CSV text (RFC 4180), without empty lines.
function parse(text, delimiter, problems) {
  const records = [];
  const size = text.length;
  let at = 0;
  // The next places of three characters are kept, so that each is searched for only once.
  let quote = -2;
  let newline = -2;
  let comma = -2;
  const find = (what, known) => {
    if (known === -1 || known >= at) return known;
    return text.indexOf(what, at);
  };
  while (at < size) {
    newline = find('\n', newline);
    quote = find('"', quote);
    const end = newline < 0 ? size : newline;
    if (quote < 0 || quote > end) {
      const line = text.slice(at, end > at && text[end - 1] === '\r' ? end - 1 : end);
      if (line !== '') records.push(line.split(delimiter));
      at = end + 1;
      continue;
    }
    const record = [];
    const start = at;
    for (let more = true; more;) {
      let value = '';
      let quoted = false;
      if (text[at] === '"') {
        quoted = true;
        at++;
        for (;;) {
          const close = text.indexOf('"', at);
          if (close < 0) {
            problems.push(`a quote is not closed: all from line ${text.slice(0, start).split('\n').length} on was read as one value`);
            value += text.slice(at);
            at = size;
            break;
          }
          value += text.slice(at, close);
          at = close + 1;
          if (text[at] !== '"') break;
          value += '"';
          at++;
        }
      }
      newline = find('\n', newline);
      comma = find(delimiter, comma);
      const lineEnd = newline < 0 ? size : newline;
      more = comma >= 0 && comma < lineEnd;
      const stop = more ? comma : lineEnd;
      let rest = text.slice(at, stop);
      if (!more && rest.endsWith('\r')) rest = rest.slice(0, -1);
      record.push(quoted ? value + rest : rest);
      at = stop + 1;
    }
    records.push(record);
  }
  return records;
}

// ---- Values

function tidy(text) {
  const trimmed = text.trim();
  return isASCII(trimmed) ? trimmed : trimmed.normalize('NFC');
}

const isASCII = (text) => /^[\x00-\x7f]*$/.test(text);

const NUMBER = /^[-+]?(?:[€$£¥] ?)?[-+]?\d[\d.,'’ \u00a0\u202f]*(?:[eE][-+]?\d+)?(?: ?[€$£¥%])?$|^[-+]?[.,]\d+$/;
const SIGNS = /[€$£¥%]/;

// bare removes sign, currency, spaces and apostrophes of a number, or returns null for what is no number.
function bare(text) {
  if (!NUMBER.test(text)) return null;
  return text.replace(/[-+€$£¥%'’ \u00a0\u202f]/g, '');
}

// decimalVote says which decimal sign a number shows: '.', ',', '?.' or '?,' if the sign may separate thousands too, null if it shows none.
function decimalVote(text) {
  const core = /\d[.,]/.test(text) || /^[-+]?[.,]\d/.test(text) ? bare(text) : null;
  if (core === null || /e/i.test(core)) return null;
  const dot = core.lastIndexOf('.');
  const comma = core.lastIndexOf(',');
  if (dot < 0 && comma < 0) return null;
  const sign = dot > comma ? '.' : ',';
  const other = sign === '.' ? ',' : '.';
  if (dot >= 0 && comma >= 0) return core.indexOf(sign) === core.lastIndexOf(sign) ? sign : null;
  if (core.indexOf(sign) !== core.lastIndexOf(sign)) return other;
  const [before, after] = core.split(sign);
  return after.length !== 3 || before.length > 3 || before === '' || before.startsWith('0') ? sign : `?${sign}`;
}

// decimalOf returns the decimal sign that the columns show together, or null.
function decimalOf({ values }) {
  const votes = { '.': 0, ',': 0 };
  for (const column of values) {
    const some = column.length > 1000 ? column.slice(0, 1000) : column;
    for (const value of some) {
      const vote = typeof value === 'string' && !DATE.test(value) ? decimalVote(value.trim()) : null;
      if (vote !== null && vote.length === 1) votes[vote]++;
    }
  }
  return votes['.'] === votes[','] ? null : votes['.'] > votes[','] ? '.' : ',';
}

// numberOf reads a number with a decimal sign, or returns null.
function numberOf(text, decimal) {
  const core = bare(text);
  if (core === null) return null;
  const [mantissa, exponent] = core.split(/e/i);
  const at = mantissa.lastIndexOf(decimal);
  const whole = at < 0 ? mantissa : mantissa.slice(0, at);
  const fraction = at < 0 ? '' : mantissa.slice(at + 1);
  const plain = /^\d*$/.test(whole) ? whole : /^\d{1,3}(?:[.,]\d{3})+$/.test(whole) && !whole.includes(decimal) ? whole.replace(/[.,]/g, '') : null;
  if (plain === null || !/^\d*$/.test(fraction) || plain + fraction === '' || (at >= 0 && fraction === '')) return null;
  if (plain.length > 1 && plain.startsWith('0')) return null; // a code
  if ((plain + fraction).replace(/^0+/, '').length > 15) return null; // more digits than a number has
  const value = Number(`${plain || '0'}.${fraction || '0'}${exponent ? `e${exponent}` : ''}`);
  if (!Number.isFinite(value)) return null;
  return /^[^\d]*-/.test(text) && value !== 0 ? -value : value;
}

const DATE = /^(?:(\d{4})([-/.])(\d{1,2})\2(\d{1,2})|(\d{1,2})([-/.])(\d{1,2})\6(\d{4}|\d{2})?)(?:[T ]\s?(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d{2}:?\d{2})?)?$/;

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const daysIn = (y, m) => (m === 2 && (y % 400 === 0 || (y % 4 === 0 && y % 100 !== 0)) ? 29 : DAYS[m - 1]);

// dateOf reads a date: {text: ISO form, time: whether it has one}, 'order' if it can be read in two ways, 'year' if it has none, null if it is no date.
function dateOf(text, order, year) {
  const m = DATE.exec(text);
  if (!m) return null;
  let y;
  let month;
  let day;
  if (m[1]) [y, month, day] = [Number(m[1]), Number(m[3]), Number(m[4])];
  else {
    const [a, b] = [Number(m[5]), Number(m[7])];
    if (m[8] === undefined) {
      if (m[6] !== '.') return null; // 1/2 is no date
      if (year === undefined) return 'year';
    } else if (m[8].length === 2 && m[6] === '-') return null; // 01-02-03 says nothing
    y = m[8] === undefined ? year : m[8].length === 2 ? Number(m[8]) + (Number(m[8]) < 70 ? 2000 : 1900) : Number(m[8]);
    const used = m[6] === '.' ? 'dmy' : order;
    if (used === undefined && a <= 12 && b <= 12 && a !== b) return 'order';
    [day, month] = used === 'mdy' || (used === undefined && b > 12) ? [b, a] : [a, b];
  }
  if (y === 0 || month < 1 || month > 12 || day < 1 || day > daysIn(y, month)) return null;
  const two = (n) => String(n).padStart(2, '0');
  const date = `${String(y).padStart(4, '0')}-${two(month)}-${two(day)}`;
  if (m[9] === undefined) return { text: date, time: false };
  const [h, min, s] = [Number(m[9]), Number(m[10]), Number(m[11] ?? 0)];
  if (h > 23 || min > 59 || s > 59) return null;
  const zone = m[13] ? (m[13] === 'Z' ? 'Z' : `${m[13].slice(0, 3)}:${m[13].slice(-2)}`) : '';
  return { text: `${date}T${two(h)}:${two(min)}:${two(s)}${m[12] ? `.${m[12]}` : ''}${zone}`, time: true };
}

const TRUE = new Set(['true', 'yes', 'ja', 'wahr']);
const FALSE = new Set(['false', 'no', 'nein', 'falsch']);

// read classifies a text without outer spaces: {type, value}.
function read(text, { decimal, order, year }) {
  const first = text.charCodeAt(0);
  const digit = first >= 48 && first <= 57;
  if (digit || first < 48 || first > 127) {
    const date = digit ? dateOf(text, order, year) : null;
    if (date !== null && typeof date === 'object') return { type: date.time ? 'datetime' : 'date', value: date.text };
    if (date !== null) return { type: 'text', value: text, open: date };
    const number = numberOf(text, decimal);
    if (number !== null) return { type: Number.isInteger(number) && !text.includes(decimal) ? 'integer' : 'number', value: number };
  } else if (text.length < 7) {
    const lower = text.toLowerCase();
    if (TRUE.has(lower)) return { type: 'boolean', value: true };
    if (FALSE.has(lower)) return { type: 'boolean', value: false };
  }
  return { type: 'text', value: text };
}

// ---- Columns

// column describes the values of a column, and returns them cleaned.
function column(name, values, options) {
  const problems = [];
  const entries = new Map(); // tidy text or JSON text of a value -> what is known about it
  const missingAs = new Map();
  let missing = 0;
  let spaced = 0;
  let composed = 0;
  const votes = { '.': 0, ',': 0, '?.': 0, '?,': 0 };
  let ambiguous = '';
  let dmy = 0;
  let mdy = 0;
  const signs = new Set();
  const places = values.map((value) => { // the entry of each value, null for no value
    if (value === null || value === undefined || (typeof value === 'number' && !Number.isFinite(value))) {
      missing++;
      return null;
    }
    let text = value;
    if (typeof value === 'string') {
      const trimmed = value.trim();
      if (trimmed !== value) spaced++;
      text = tidy(trimmed);
      if (text !== trimmed) composed++;
      if (text.length < 20 && options.missing.has(text.toLowerCase())) {
        missing++;
        if (text !== '') missingAs.set(text, (missingAs.get(text) ?? 0) + 1);
        return null;
      }
    }
    const key = typeof value === 'string' ? text : typeof value === 'object' ? JSON.stringify(value) : value;
    let entry = entries.get(key);
    if (entry) {
      entry.count++;
      return entry;
    }
    entry = { text, count: 1, type: '', value: text, open: undefined };
    entries.set(key, entry);
    if (typeof value !== 'string') {
      entry.type = typeof value === 'number' ? (Number.isInteger(value) ? 'integer' : 'number') : typeof value === 'boolean' ? 'boolean' : 'object';
      return entry;
    }
    const date = DATE.exec(text);
    if (date) {
      if (date[5] && date[6] !== '.') {
        if (Number(date[5]) > 12) dmy++;
        if (Number(date[7]) > 12) mdy++;
      }
      return entry;
    }
    const vote = decimalVote(text);
    if (vote !== null) {
      votes[vote]++;
      if (vote.length === 2) ambiguous ||= text;
    }
    const sign = SIGNS.exec(text);
    if (sign && NUMBER.test(text)) signs.add(sign[0]);
    return entry;
  });

  // How to read the column is decided by all of its values, then by the table.
  const shown = votes['.'] + votes[','];
  const decimal = options.decimal ?? (shown > 0 ? (votes['.'] >= votes[','] ? '.' : ',') : (options.tableDecimal ?? '.'));
  const order = options.dates ?? (dmy > 0 && mdy === 0 ? 'dmy' : mdy > 0 && dmy === 0 ? 'mdy' : undefined);
  const counts = new Map();
  let openOrder = 0;
  let openYear = 0;
  let filled = 0;
  for (const entry of entries.values()) {
    if (entry.type === '') Object.assign(entry, read(entry.text, { decimal, order, year: options.year }));
    if (entry.open === 'order') openOrder += entry.count;
    if (entry.open === 'year') openYear += entry.count;
    counts.set(entry.type, (counts.get(entry.type) ?? 0) + entry.count);
    filled += entry.count;
  }
  const { type, fits } = typeOf(counts, filled);
  const described = { name, type, filled, missing, distinct: entries.size };
  const unfit = [];
  let unfitCount = 0;
  for (const entry of entries.values()) {
    if (fits(entry.type)) continue;
    unfitCount += entry.count;
    if (unfit.length < 3) unfit.push(clipped(entry.text));
    entry.value = entry.text;
  }
  if (unfitCount > 0 && type !== 'text') described.unfit = { count: unfitCount, examples: unfit };
  if (type === 'text') for (const entry of entries.values()) entry.value = entry.text;

  const numeric = type === 'integer' || type === 'number';
  if (numeric) Object.assign(described, ofNumbers(places, fits), shown > 0 ? { decimal } : {});
  if (type === 'date' || type === 'datetime') Object.assign(described, range(entries, fits));
  if (type === 'text') Object.assign(described, lengths(entries));
  if (entries.size < filled) {
    // Only values that occur more than once are sorted.
    const repeated = [...entries.values()].filter((entry) => entry.count > 1).sort((a, b) => b.count - a.count);
    described.top = repeated.slice(0, 5).map(({ value, count }) => ({ value, count }));
  }
  if (missingAs.size > 0) described.missingAs = [...missingAs].slice(0, 10).map(([text, count]) => ({ text, count }));

  if (spaced > 0) problems.push(`${spaced} ${spaced === 1 ? 'value has' : 'values have'} spaces around`);
  if (composed > 0) problems.push(`${composed} ${composed === 1 ? 'value is' : 'values are'} not in Unicode's form NFC, so equal words may differ`);
  if (numeric && shown === 0 && ambiguous && options.decimal === undefined && options.tableDecimal === null) {
    problems.push(`${JSON.stringify(ambiguous)} may be read in two ways; "." was taken as the decimal sign. Give decimal`);
  }
  if (numeric && votes['.'] > 0 && votes[','] > 0) problems.push('some values have a decimal point and others a decimal comma');
  if (numeric && signs.size > 1) problems.push(`the numbers have several units: ${[...signs].join(' ')}`);
  if (openOrder > 0) problems.push(`${openOrder} ${openOrder === 1 ? 'date' : 'dates'} can be read with the day or with the month first. Give dates: "dmy" or "mdy"`);
  if (openYear > 0) problems.push(`${openYear} ${openYear === 1 ? 'date has' : 'dates have'} no year. Give year`);
  if (type === 'text') problems.push(...variants(entries));
  described.problems = problems;
  return { described, cleaned: options.output === 'profile' ? null : places.map((entry) => (entry === null ? null : entry.value)) };
}

const clipped = (value) => (typeof value === 'string' && value.length > 80 ? `${value.slice(0, 80)}…` : value);

// typeOf returns the type of at least 90 % of the values. Integers are numbers too, and dates are times of a day too.
function typeOf(counts, filled) {
  if (filled === 0) return { type: 'empty', fits: () => true };
  const of = (...types) => types.reduce((n, t) => n + (counts.get(t) ?? 0), 0);
  const enough = (n) => n >= filled * MOST;
  if (enough(of('integer', 'number'))) return { type: of('number') > 0 ? 'number' : 'integer', fits: (t) => t === 'integer' || t === 'number' };
  if (enough(of('date', 'datetime'))) return { type: of('datetime') > 0 ? 'datetime' : 'date', fits: (t) => t === 'date' || t === 'datetime' };
  for (const type of ['boolean', 'object']) if (enough(of(type))) return { type, fits: (t) => t === type };
  return { type: 'text', fits: () => true };
}

function ofNumbers(places, fits) {
  const all = [];
  for (const entry of places) if (entry !== null && fits(entry.type)) all.push(entry.value);
  const sorted = Float64Array.from(all).sort();
  const n = sorted.length;
  const at = (share) => {
    const place = (n - 1) * share;
    const low = Math.floor(place);
    return low + 1 < n ? sorted[low] + (place - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
  };
  const short = (x) => Number(x.toPrecision(12));
  const described = { min: sorted[0], max: sorted[n - 1], mean: short(all.reduce((a, b) => a + b, 0) / n), median: short(at(0.5)) };
  if (n < 8) return described; // quartiles of fewer values say little
  const [q1, q3] = [at(0.25), at(0.75)];
  const below = short(q1 - 1.5 * (q3 - q1));
  const above = short(q3 + 1.5 * (q3 - q1));
  const outliers = { count: 0, below, above, examples: [] };
  places.forEach((entry, i) => {
    if (entry === null || !fits(entry.type) || (entry.value >= below && entry.value <= above)) return;
    outliers.count++;
    if (outliers.examples.length < 5) outliers.examples.push({ row: i + 1, value: entry.value });
  });
  return { ...described, outliers };
}

function range(entries, fits) {
  let min;
  let max;
  for (const { type, value } of entries.values()) {
    if (!fits(type)) continue;
    if (min === undefined || value < min) min = value;
    if (max === undefined || value > max) max = value;
  }
  return { min, max };
}

function lengths(entries) {
  let shortest = Infinity;
  let longest = 0;
  for (const { text } of entries.values()) {
    const length = typeof text === 'string' ? (isASCII(text) ? text.length : [...text].length) : String(text).length;
    shortest = Math.min(shortest, length);
    longest = Math.max(longest, length);
  }
  return { shortest, longest };
}

// variants finds texts that differ only in the case of letters or in spaces.
function variants(entries) {
  const first = new Map();
  const found = new Map();
  for (const { text } of entries.values()) {
    if (typeof text !== 'string') continue;
    const key = text.toLowerCase().replace(/\s+/g, ' ');
    const known = first.get(key);
    if (known === undefined) first.set(key, text);
    else found.set(key, `${JSON.stringify(known)} and ${JSON.stringify(text)}`);
  }
  if (found.size === 0) return [];
  return [`${found.size} ${found.size === 1 ? 'text is' : 'texts are'} written in several ways, such as ${clipped([...found.values()][0])}`];
}

// ---- Writing

function toRows({ names, values, count }) {
  const rows = [];
  for (let i = 0; i < count; i++) {
    const row = {};
    for (let c = 0; c < names.length; c++) {
      if (names[c] === '__proto__') Object.defineProperty(row, '__proto__', { value: values[c][i], writable: true, enumerable: true, configurable: true });
      else row[names[c]] = values[c][i];
    }
    rows.push(row);
  }
  return rows;
}

function toCSV({ names, values, count }, problems) {
  let guarded = 0;
  const cell = (value) => {
    if (value === null) return '';
    if (typeof value === 'number' || typeof value === 'boolean') return String(value);
    let text = typeof value === 'string' ? value : JSON.stringify(value);
    if (/^[=+\-@\t\r]/.test(text)) {
      guarded++;
      text = `'${text}`;
    }
    return /[",\r\n]/.test(text) || text.trim() !== text ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [names.map(cell).join(',')];
  for (let i = 0; i < count; i++) lines.push(values.map((column) => cell(column[i])).join(','));
  if (guarded > 0) problems.push(`${guarded} ${guarded === 1 ? 'text begins' : 'texts begin'} like a formula of a spreadsheet and got an apostrophe`);
  return `${lines.join('\r\n')}\r\n`;
}
