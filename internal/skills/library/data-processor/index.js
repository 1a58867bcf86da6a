/**
 * Skill: data-processor
 * Purpose: Filters, maps, groups, aggregates, sorts and limits rows by steps that are plain data.
 * Version: 1.0
 * Usage: import process from '/skills/data-processor/index.js'; const {rows} = await process({rows, steps: [{sort: ['-amount']}]})
 */

const STEPS = ['filter', 'map', 'select', 'drop', 'group', 'aggregate', 'sort', 'distinct', 'limit'];
const MAX_DEPTH = 100; // nested conditions and expressions

export default async function process(input) {
  const { rows, steps } = input ?? {};
  if (!Array.isArray(rows)) throw new TypeError('rows is missing: give a list of objects');
  if (!Array.isArray(steps)) throw new TypeError('steps is missing: give a list such as [{filter: {field, op, value}}, {sort: ["-amount"]}]');
  rows.forEach((row, i) => {
    if (!isObject(row)) throw new TypeError(`rows[${i}] is no object: give rows such as {name: value}`);
  });
  const problems = new Problems();
  let current = rows;
  steps.forEach((step, i) => {
    const kinds = isObject(step) ? STEPS.filter((kind) => Object.hasOwn(step, kind)) : [];
    if (kinds.length !== 1) throw new TypeError(`step ${i + 1} needs exactly one of the fields ${STEPS.join(', ')}; it has ${kinds.join(' and ') || 'none'}`);
    problems.at = `step ${i + 1}`;
    current = apply[kinds[0]](current, step, problems);
  });
  return { rows: current, count: current.length, problems: problems.texts() };
}

// Problems counts the values that an operation could not use.
class Problems {
  at = '';
  #counts = new Map();

  add(what, why) {
    const key = `${this.at}, ${what}\n${why}`;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  texts() {
    return [...this.#counts].map(([key, n]) => {
      const [where, why] = key.split('\n');
      return `${where}: ${n} ${n === 1 ? 'value is' : 'values are'} ${why}`;
    });
  }

  // wrong is an error of the step itself.
  wrong(message) {
    return new TypeError(`${this.at}: ${message}`);
  }
}

const apply = {
  filter(rows, step, problems) {
    const test = typeof step.filter === 'function' ? step.filter : condition(step.filter, problems, 0);
    return rows.filter((row) => test(row));
  },

  map(rows, { map }, problems) {
    if (typeof map === 'function') {
      return rows.map((row, i) => {
        const made = map(row, i);
        if (!isObject(made)) throw problems.wrong('the function of map has to return an object');
        return made;
      });
    }
    if (!isObject(map)) throw problems.wrong('map takes an object of expressions, such as {total: {multiply: ["price", "quantity"]}}');
    const made = Object.entries(map).map(([name, e]) => [name, expression(e, problems, 0)]);
    return rows.map((row) => {
      const values = made.map(([name, value]) => [name, value(row)]);
      return withFields(row, values);
    });
  },

  select(rows, { select }, problems) {
    const all = fields(select, problems, 'select').map((name) => [name, reader(name)]);
    return rows.map((row) => {
      const made = {};
      for (const [name, read] of all) {
        const value = read(row);
        if (value !== undefined) set(made, name, value);
      }
      return made;
    });
  },

  drop(rows, { drop }, problems) {
    const gone = new Set(fields(drop, problems, 'drop'));
    return rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !gone.has(name))));
  },

  group(rows, { group, totals }, problems) {
    const by = fields(group, problems, 'group');
    const reads = by.map(reader);
    const groups = new Map();
    for (const row of rows) {
      const values = reads.map((read) => read(row));
      const key = keyOf(values);
      let found = groups.get(key);
      if (!found) groups.set(key, found = { values, rows: [] });
      found.rows.push(row);
    }
    const all = aggregates(totals ?? { count: { count: true } }, problems);
    const made = [];
    for (const { values, rows: members } of groups.values()) {
      const row = {};
      by.forEach((name, i) => set(row, name, values[i] ?? null));
      for (const [name, of] of all) set(row, name, of(members));
      made.push(row);
    }
    return made;
  },

  aggregate(rows, { aggregate }, problems) {
    const row = {};
    for (const [name, of] of aggregates(aggregate, problems)) set(row, name, of(rows));
    return [row];
  },

  sort(rows, { sort }, problems) {
    const by = fields(sort, problems, 'sort').map((name) => {
      const down = name.startsWith('-');
      return { read: reader(down ? name.slice(1) : name), sign: down ? -1 : 1 };
    });
    // The keys are read once for each row, not once for each comparison.
    const keyed = rows.map((row) => ({ row, keys: by.map(({ read }) => read(row)) }));
    keyed.sort((a, b) => {
      for (let i = 0; i < by.length; i++) {
        const order = compare(a.keys[i], b.keys[i], by[i].sign);
        if (order !== 0) return order;
      }
      return 0;
    });
    return keyed.map(({ row }) => row);
  },

  distinct(rows, { distinct }, problems) {
    if (!Array.isArray(distinct)) throw problems.wrong('distinct takes a list of fields; an empty one compares whole rows');
    const reads = fields(distinct, problems, 'distinct', 0).map(reader);
    const seen = new Set();
    return rows.filter((row) => {
      const key = reads.length === 0 ? keyOf([row]) : keyOf(reads.map((read) => read(row)));
      return !seen.has(key) && seen.add(key);
    });
  },

  limit(rows, { limit, offset = 0 }, problems) {
    for (const n of [limit, offset]) {
      if (!Number.isInteger(n) || n < 0) throw problems.wrong('limit and offset take whole numbers from 0 on');
    }
    return rows.slice(offset, offset + limit);
  },
};

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function fields(list, problems, what, least = 1) {
  const all = typeof list === 'string' ? [list] : list;
  if (!Array.isArray(all) || all.length < least || all.some((name) => typeof name !== 'string' || name === '')) {
    throw problems.wrong(`${what} takes a list of names of fields, such as ["country", "customer.city"]`);
  }
  return all;
}

// reader returns a function that reads a field or path. Only own fields count, because every object inherits "constructor" and others.
function reader(name) {
  const parts = name.split('.');
  if (parts.length === 1) return (row) => (Object.hasOwn(row, name) ? row[name] : undefined);
  return (row) => {
    if (Object.hasOwn(row, name)) return row[name];
    let value = row;
    for (const part of parts) {
      if (value === null || typeof value !== 'object' || !Object.hasOwn(value, part)) return undefined;
      value = value[part];
    }
    return value;
  };
}

// set makes an own field even of "__proto__".
function set(row, name, value) {
  if (name === '__proto__') Object.defineProperty(row, name, { value, writable: true, enumerable: true, configurable: true });
  else row[name] = value;
}

function withFields(row, values) {
  const made = { ...row };
  for (const [name, value] of values) if (value !== undefined) set(made, name, value);
  return made;
}

const missing = (value) => value === undefined || value === null || value === '';

// keyOf returns a text that is equal for equal values, and different for 1 and "1".
function keyOf(values) {
  let key = '';
  for (const value of values) {
    switch (typeof value) {
      case 'string': key += `s${value.length}:${value}`; break;
      case 'number': key += `n${value}:`; break;
      case 'boolean': key += value ? 't' : 'f'; break;
      default: key += value === undefined || value === null ? '0' : `j${canonical(value, 0)}:`;
    }
  }
  return key;
}

// canonical is the JSON text of a value with the fields of objects sorted.
function canonical(value, depth) {
  if (depth > MAX_DEPTH) throw new RangeError(`a value is nested more than ${MAX_DEPTH} times: select simpler fields first`);
  if (Array.isArray(value)) return `[${value.map((v) => canonical(v, depth + 1)).join()}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k], depth + 1)}`).join()}}`;
}

const rank = (value) => (missing(value) ? 4 : typeof value === 'number' ? 0 : typeof value === 'string' ? 1 : typeof value === 'boolean' ? 2 : 3);

// compare orders two values; missing ones are last whatever the sign is.
function compare(a, b, sign) {
  const ra = rank(a);
  const rb = rank(b);
  if (ra !== rb) return ra === 4 || rb === 4 ? ra - rb : sign * (ra - rb);
  if (ra > 2 || a === b) return 0;
  return a < b ? -sign : sign;
}

const ORDERED = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};
const OF_TEXT = {
  contains: (a, b) => a.includes(b),
  startsWith: (a, b) => a.startsWith(b),
  endsWith: (a, b) => a.endsWith(b),
};
const OPERATIONS = ['=', '!=', ...Object.keys(ORDERED), 'in', ...Object.keys(OF_TEXT), 'missing', 'present'];

function condition(c, problems, depth) {
  if (depth > MAX_DEPTH) throw problems.wrong(`conditions are nested more than ${MAX_DEPTH} times`);
  if (!isObject(c)) throw problems.wrong('a condition is {field, op, value}, {all: […]}, {any: […]} or {not: …}');
  for (const [name, every] of [['all', true], ['any', false]]) {
    if (!Object.hasOwn(c, name)) continue;
    if (!Array.isArray(c[name])) throw problems.wrong(`${name} takes a list of conditions`);
    const tests = c[name].map((one) => condition(one, problems, depth + 1));
    return every ? (row) => tests.every((test) => test(row)) : (row) => tests.some((test) => test(row));
  }
  if (Object.hasOwn(c, 'not')) {
    const test = condition(c.not, problems, depth + 1);
    return (row) => !test(row);
  }
  const { field, op = '=', value } = c;
  if (typeof field !== 'string') throw problems.wrong('a condition needs a field: {field: "amount", op: ">=", value: 10}');
  const read = reader(field);
  const what = `"${field}" ${op}`;
  if (Object.hasOwn(ORDERED, op)) {
    if (typeof value !== 'number' && typeof value !== 'string') throw problems.wrong(`${what} compares with a number or a text: give it as value`);
    return (row) => {
      const found = read(row);
      if (missing(found)) return false;
      if (typeof found === typeof value) return ORDERED[op](found, value);
      problems.add(what, `no ${typeof value === 'number' ? 'number' : 'text'} and cannot be compared`);
      return false;
    };
  }
  if (Object.hasOwn(OF_TEXT, op)) {
    if (typeof value !== 'string') throw problems.wrong(`${what} takes a text as value`);
    return (row) => {
      const found = read(row);
      if (Array.isArray(found) && op === 'contains') return found.includes(value);
      if (missing(found)) return false;
      if (typeof found === 'string') return OF_TEXT[op](found, value);
      problems.add(what, 'no text and cannot be compared');
      return false;
    };
  }
  switch (op) {
    case 'missing': return (row) => missing(read(row));
    case 'present': return (row) => !missing(read(row));
    case 'in': {
      if (!Array.isArray(value)) throw problems.wrong(`${what} takes a list as value`);
      const all = new Set(value.map((v) => keyOf([v])));
      return (row) => all.has(keyOf([read(row)]));
    }
    case '=':
    case '!=': {
      const key = keyOf([value]);
      return (row) => (keyOf([read(row)]) === key) === (op === '=');
    }
    default: throw problems.wrong(`there is no operation ${JSON.stringify(op)}; use one of ${OPERATIONS.join(' ')}`);
  }
}

const ARITHMETIC = {
  add: (a, b) => a + b,
  subtract: (a, b) => a - b,
  multiply: (a, b) => a * b,
  divide: (a, b) => a / b,
};
const TEXTS = { lower: (s) => s.toLowerCase(), upper: (s) => s.toUpperCase(), trim: (s) => s.trim() };

function expression(e, problems, depth) {
  if (depth > MAX_DEPTH) throw problems.wrong(`expressions are nested more than ${MAX_DEPTH} times`);
  if (typeof e === 'function') return e;
  if (!isObject(e)) throw problems.wrong('an expression is an object such as {field: "a"}, {value: 1}, {template: "{a} {b}"} or {add: ["a", 1]}');
  if (typeof e.field === 'string') return reader(e.field);
  if (Object.hasOwn(e, 'value')) return () => e.value;
  if (typeof e.template === 'string') {
    const parts = e.template.split(/\{([^{}]+)\}/).map((part, i) => (i % 2 ? reader(part) : part));
    return (row) => parts.map((part) => {
      if (typeof part === 'string') return part;
      const value = part(row);
      return missing(value) ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    }).join('');
  }
  if (typeof e.length === 'string') {
    const read = reader(e.length);
    return (row) => {
      const value = read(row);
      return typeof value === 'string' || Array.isArray(value) ? value.length : null;
    };
  }
  for (const [name, change] of Object.entries(TEXTS)) {
    if (typeof e[name] !== 'string') continue;
    const read = reader(e[name]);
    return (row) => {
      const value = read(row);
      return typeof value === 'string' ? change(value) : value;
    };
  }
  if (Object.hasOwn(e, 'round')) {
    const { digits = 0 } = e;
    if (!Number.isInteger(digits) || digits < 0 || digits > 15) throw problems.wrong('digits of round is a whole number from 0 to 15');
    const value = operand(e.round, problems, depth);
    return (row) => {
      const n = value(row);
      return n === null ? null : rounded(n, digits);
    };
  }
  for (const [name, of] of Object.entries(ARITHMETIC)) {
    if (!Object.hasOwn(e, name)) continue;
    if (!Array.isArray(e[name]) || e[name].length === 0) throw problems.wrong(`${name} takes a list of numbers, fields and expressions`);
    const operands = e[name].map((one) => operand(one, problems, depth));
    return (row) => {
      let result = null;
      for (const read of operands) {
        const n = read(row);
        if (n === null) return null;
        result = result === null ? n : of(result, n);
      }
      if (Number.isFinite(result)) return tidy(result);
      problems.add(name, 'no finite number, such as after a division by 0, and became null');
      return null;
    };
  }
  throw problems.wrong(`an expression has one of the fields field, value, template, length, round, ${[...Object.keys(TEXTS), ...Object.keys(ARITHMETIC)].join(', ')}; this one has ${Object.keys(e).join(', ') || 'none'}`);
}

// operand returns a function that reads a number, or null.
function operand(one, problems, depth) {
  if (typeof one === 'number') return () => one;
  const read = typeof one === 'string' ? reader(one) : expression(one, problems, depth + 1);
  const what = typeof one === 'string' ? `"${one}"` : 'an operand';
  return (row) => {
    const value = read(row);
    if (typeof value === 'number') return value;
    if (!missing(value)) problems.add(what, 'no number, and the result is null');
    return null;
  };
}

// tidy removes the error of binary fractions beyond 15 digits: 0.1 * 3 is 0.3.
function tidy(n) {
  return Number.isInteger(n) ? n : Number(n.toPrecision(15));
}

// rounded rounds half away from zero, by the decimal digits: 1.005 to 1.01.
function rounded(n, digits) {
  const text = Math.abs(n).toString();
  if (text.includes('e')) return Number(n.toFixed(digits));
  const shifted = Math.round(Number(`${text}e${digits}`));
  const value = Number(`${shifted}e-${digits}`);
  return n < 0 && value !== 0 ? -value : value;
}

function decimals(n) {
  if (Number.isInteger(n)) return 0;
  const [mantissa, exponent = '0'] = String(n).split('e');
  return Math.max(0, (mantissa.split('.')[1] ?? '').length - Number(exponent));
}

// sumOf adds with a correction of the rounding error (Neumaier), and gives the sum as many decimals as its values have.
function sumOf(numbers) {
  let sum = 0;
  let correction = 0;
  let digits = 0;
  for (const n of numbers) {
    const next = sum + n;
    correction += Math.abs(sum) >= Math.abs(n) ? sum - next + n : n - next + sum;
    sum = next;
    if (digits < 15) digits = Math.max(digits, decimals(n));
  }
  sum += correction;
  return digits > 0 && digits <= 15 && Math.abs(sum) < 1e15 ? Number(sum.toFixed(digits)) : sum;
}

const OF_NUMBERS = {
  sum: (numbers) => sumOf(numbers),
  mean: (numbers) => tidy(sumOf(numbers) / numbers.length),
  median: (numbers) => {
    const sorted = Float64Array.from(numbers).sort();
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : tidy((sorted[half - 1] + sorted[half]) / 2);
  },
};
const OF_VALUES = {
  first: (values) => values[0],
  last: (values) => values.at(-1),
  min: (values) => values.reduce((a, b) => (compare(b, a, 1) < 0 ? b : a)),
  max: (values) => values.reduce((a, b) => (compare(b, a, 1) > 0 ? b : a)),
  list: (values) => values,
};

function aggregates(all, problems) {
  if (!isObject(all) || Object.keys(all).length === 0) {
    throw problems.wrong('give aggregates by name, such as {revenue: {sum: "amount"}, orders: {count: true}}');
  }
  return Object.entries(all).map(([name, a]) => [name, aggregate(name, a, problems)]);
}

function aggregate(name, a, problems) {
  const kinds = isObject(a) ? Object.keys(a) : [];
  const [kind] = kinds;
  const field = kinds.length === 1 ? a[kind] : undefined;
  if (kind === 'count' && field === true) return (rows) => rows.length;
  const known = ['count', 'distinct', ...Object.keys(OF_NUMBERS), ...Object.keys(OF_VALUES)];
  if (typeof field !== 'string' || !known.includes(kind)) {
    throw problems.wrong(`the aggregate ${JSON.stringify(name)} has to be {count: true} or {OPERATION: "field"} with one of ${known.join(', ')}`);
  }
  const read = reader(field);
  const valuesOf = (rows) => rows.map(read).filter((value) => !missing(value));
  if (kind === 'count') return (rows) => valuesOf(rows).length;
  if (kind === 'distinct') return (rows) => new Set(valuesOf(rows).map((value) => keyOf([value]))).size;
  if (Object.hasOwn(OF_VALUES, kind)) {
    return (rows) => {
      const values = valuesOf(rows);
      return values.length > 0 || kind === 'list' ? OF_VALUES[kind](values) : null;
    };
  }
  return (rows) => {
    const numbers = [];
    for (const value of valuesOf(rows)) {
      if (typeof value === 'number') numbers.push(value);
      else problems.add(`${kind} of "${field}"`, 'no number, left out');
    }
    return numbers.length > 0 ? OF_NUMBERS[kind](numbers) : null;
  };
}
