/**
 * Skill: snapshot-diff
 * Purpose: Compares two snapshots: rows added, removed and changed by key, with the paths of what changed.
 * Version: 1.0
 * Usage: import diff from '/skills/snapshot-diff/index.js'; const {added, removed, changed} = await diff({before, after, key: 'id'})
 */

const MAX_CHANGES = 1000;
const MAX_DEPTH = 100;

export default async function diff(input) {
  const { before, after, key, options } = checked(input);
  if (key === null) {
    const found = changes(before, after, options);
    return { equal: found.count === 0, changes: found.list, truncated: found.count > found.list.length };
  }
  const from = index(before, key, options);
  const to = index(after, key, options);
  const result = { added: [], removed: [], changed: [] };
  const counts = { before: before.length, after: after.length, added: 0, removed: 0, changed: 0, unchanged: 0, withoutKey: from.withoutKey + to.withoutKey };
  let truncated = false;
  const put = (kind, value) => {
    counts[kind]++;
    if (result[kind].length < options.max) result[kind].push(value);
    else truncated = true;
  };
  for (const [text, old] of from.rows) {
    const now = to.rows.get(text)?.list ?? [];
    old.list.forEach((row, i) => {
      if (i >= now.length) {
        put('removed', row);
        return;
      }
      const found = changes(row, now[i], options);
      if (found.count === 0) {
        counts.unchanged++;
        return;
      }
      if (found.count > found.list.length) truncated = true;
      put('changed', { key: old.key, changes: found.list });
    });
  }
  for (const [text, now] of to.rows) {
    for (const row of now.list.slice(from.rows.get(text)?.list.length ?? 0)) put('added', row);
  }
  return { ...result, counts, duplicates: { before: from.duplicates, after: to.duplicates }, truncated };
}

function checked(input) {
  if (input === null || typeof input !== 'object') throw new TypeError('give an object {before, after, key}');
  for (const name of ['before', 'after']) if (!Object.hasOwn(input, name)) throw new TypeError(`${name} is missing: give a snapshot`);
  const { key, path, keys = {}, ignore = [], maxChanges = MAX_CHANGES } = input;
  let { before, after } = input;
  const isName = (name) => typeof name === 'string' && name !== '';
  const names = key === undefined || key === null ? null : Array.isArray(key) ? key : [key];
  if (names !== null && (names.length === 0 || !names.every(isName))) throw new TypeError('key has to be a field such as "id", or a list of fields');
  if (!Array.isArray(ignore) || !ignore.every(isName)) throw new TypeError('ignore has to be a list of paths, such as ["updatedAt", "lines[].etag"]');
  if (keys === null || typeof keys !== 'object' || !Object.values(keys).every(isName)) throw new TypeError('keys has to be an object of fields by path, such as {lines: "sku"}');
  if (!Number.isInteger(maxChanges) || maxChanges < 1) throw new TypeError('maxChanges has to be a whole number above 0');
  if (path !== undefined) {
    if (!isName(path)) throw new TypeError('path has to be a text such as "data.items"');
    before = at(before, path, 'before');
    after = at(after, path, 'after');
  }
  if (names !== null) {
    for (const [name, rows] of [['before', before], ['after', after]]) {
      if (!Array.isArray(rows)) throw new TypeError(`${name} is no list: with key, give lists of rows, or where they are with path`);
    }
  }
  return { before, after, key: names, options: { ignore: new Set(ignore), keys: new Map(Object.entries(keys)), max: maxChanges } };
}

function at(value, path, name) {
  for (const part of path.split('.')) {
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, part)) throw new TypeError(`${name} has nothing at ${JSON.stringify(path)}`);
    value = value[part];
  }
  return value;
}

// index returns the rows by the text of their key. Rows without one have their own text as key.
function index(list, key, options) {
  const rows = new Map();
  const duplicates = [];
  let withoutKey = 0;
  for (const row of list) {
    const values = key.map((field) => (row !== null && typeof row === 'object' && Object.hasOwn(row, field) ? row[field] : null));
    const missing = values.some((value) => value === null || value === undefined);
    if (missing) withoutKey++;
    const text = missing ? `row ${canonical(row, options.ignore, '', 0)}` : canonical(values, new Set(), '', 0);
    const known = rows.get(text);
    if (!known) {
      rows.set(text, { key: missing ? null : key.length === 1 ? values[0] : values, list: [row] });
      continue;
    }
    known.list.push(row);
    if (known.list.length === 2 && !missing && duplicates.length < options.max) duplicates.push(known.key);
  }
  return { rows, withoutKey, duplicates };
}

function tooDeep() {
  return new RangeError(`a value is nested more than ${MAX_DEPTH} times: compare a part of it with path`);
}

// canonical is the JSON text of a value with sorted fields, without those that are ignored.
function canonical(value, ignore, place, depth) {
  if (depth > MAX_DEPTH) throw tooDeep();
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, ignore, `${place}[]`, depth + 1)).join()}]`;
  const fields = Object.keys(value).filter((name) => ignore.size === 0 || !ignore.has(within(place, name))).sort();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonical(value[name], ignore, within(place, name), depth + 1)}`).join()}}`;
}

// within is the place of a field as ignore and keys name it: every element of a list is [].
const within = (place, name) => (place === '' ? name : `${place}.${name}`);

const WORD = /^[\p{L}_$][\p{L}\p{N}_$-]*$/u;

// changes returns {list, count}: the changes from one value to another, of which at most options.max are listed.
function changes(before, after, options) {
  const found = { list: [], count: 0 };
  const add = (change) => {
    found.count++;
    if (found.list.length < options.max) found.list.push(change);
  };
  const compare = (a, b, path, place, depth) => {
    if (a === b) return;
    if (depth > MAX_DEPTH) throw tooDeep();
    const lists = Array.isArray(a);
    if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object' || lists !== Array.isArray(b)) {
      if (!(a !== a && b !== b)) add({ path, before: a, after: b }); // NaN is equal to NaN
      return;
    }
    if (lists) {
      compareLists(a, b, path, place, depth);
      return;
    }
    for (const name of Object.keys(a)) {
      const inner = within(place, name);
      if (options.ignore.has(inner)) continue;
      const to = fieldPath(path, name);
      if (Object.hasOwn(b, name)) compare(a[name], b[name], to, inner, depth + 1);
      else add({ path: to, before: a[name] });
    }
    for (const name of Object.keys(b)) {
      if (!Object.hasOwn(a, name) && !options.ignore.has(within(place, name))) add({ path: fieldPath(path, name), after: b[name] });
    }
  };
  const compareLists = (a, b, path, place, depth) => {
    const inner = `${place}[]`;
    if (options.ignore.has(inner)) return;
    const field = options.keys.get(place);
    if (field === undefined) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) {
        const to = `${path}[${i}]`;
        if (i >= b.length) add({ path: to, before: a[i] });
        else if (i >= a.length) add({ path: to, after: b[i] });
        else compare(a[i], b[i], to, inner, depth + 1);
      }
      return;
    }
    // Elements with equal keys are compared in their order; those without a key are, too.
    const keyOf = (one) => (one !== null && typeof one === 'object' && Object.hasOwn(one, field) ? `${typeof one[field]}:${typeof one[field] === 'object' ? JSON.stringify(one[field]) : one[field]}` : '');
    const rest = new Map();
    b.forEach((one) => {
      const k = keyOf(one);
      if (rest.has(k)) rest.get(k).push(one);
      else rest.set(k, [one]);
    });
    const used = new Map();
    const pathOf = (one, k) => (k === '' ? `${path}[?]` : `${path}[${field}=${typeof one[field] === 'object' ? JSON.stringify(one[field]) : one[field]}]`);
    for (const one of a) {
      const k = keyOf(one);
      const n = used.get(k) ?? 0;
      const others = rest.get(k) ?? [];
      used.set(k, n + 1);
      if (n < others.length) compare(one, others[n], pathOf(one, k), inner, depth + 1);
      else add({ path: pathOf(one, k), before: one });
    }
    for (const [k, others] of rest) for (const one of others.slice(used.get(k) ?? 0)) add({ path: pathOf(one, k), after: one });
  };
  compare(before, after, '', '', 0);
  return found;
}

function fieldPath(path, name) {
  if (!WORD.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}
