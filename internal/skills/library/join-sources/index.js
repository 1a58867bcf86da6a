/**
 * Skill: join-sources
 * Purpose: Joins two lists of rows by keys, and says what did not match.
 * Version: 1.0
 * Usage: import join from '/skills/join-sources/index.js'; const {rows, unmatched} = await join({left, right, on: 'id'})
 */

const KINDS = ['inner', 'left', 'right', 'full'];
const MAX_ROWS = 500_000;
const MAX_DUPLICATES = 100; // keys that are listed
const MAX_FUZZY = 50_000; // different keys of a side
const MAX_PAIRS = 500_000; // pairs of keys whose similarity is computed
const TOKEN = /\[[A-Z][A-Z0-9_]*_\d+\]|pii_\d+[a-z]|pii\.invalid/i;

export default async function join(input) {
  const { left, right, on, kind, normalise, threshold } = checked(input);
  const problems = [];
  const keyText = normalise ? normalised : exact;
  const sides = {
    left: index(left, on.map((k) => k.left), keyText),
    right: index(right, on.map((k) => k.right), keyText),
  };
  if (!normalise) compareTypes(on, sides, problems);

  // matches: text of a left key -> entry of the right side.
  const matches = new Map();
  for (const key of sides.left.entries.keys()) {
    const found = sides.right.entries.get(key);
    if (found) matches.set(key, [found]);
  }
  const fuzzy = [];
  const ambiguous = [];
  if (threshold !== undefined) similar(sides, matches, threshold, { fuzzy, ambiguous, problems });

  let size = 0;
  const matchedRight = new Set();
  for (const [key, found] of matches) {
    const n = sides.left.entries.get(key).rows.length;
    for (const entry of found) {
      size += n * entry.rows.length;
      for (const i of entry.rows) matchedRight.add(i);
    }
    if (size > MAX_ROWS) {
      throw new RangeError(`the join has more than ${MAX_ROWS} rows: key ${JSON.stringify(sides.left.entries.get(key).key)} occurs ${n} times left and ${found[0].rows.length} times right. Give more fields in on, or group one side first`);
    }
  }

  const make = rowMaker(left, right, on, normalise);
  const rows = [];
  const unmatched = { left: [], right: [] };
  left.forEach((row, i) => {
    const found = matches.get(sides.left.keys[i]);
    if (found) for (const entry of found) for (const j of entry.rows) rows.push(make(row, right[j]));
    else {
      unmatched.left.push(row);
      if (kind === 'left' || kind === 'full') rows.push(make(row, null));
    }
  });
  right.forEach((row, i) => {
    if (matchedRight.has(i)) return;
    unmatched.right.push(row);
    if (kind === 'right' || kind === 'full') rows.push(make(null, row));
  });
  return {
    rows,
    unmatched,
    duplicates: { left: duplicates(sides.left), right: duplicates(sides.right) },
    fuzzy,
    ambiguous,
    counts: {
      rows: rows.length,
      matchedLeft: left.length - unmatched.left.length,
      matchedRight: matchedRight.size,
      unmatchedLeft: unmatched.left.length,
      unmatchedRight: unmatched.right.length,
    },
    problems,
  };
}

function checked(input) {
  const { left, right, on, kind = 'left', normalise = false, fuzzy } = input ?? {};
  for (const [name, rows] of [['left', left], ['right', right]]) {
    if (!Array.isArray(rows)) throw new TypeError(`${name} is missing: give a list of objects`);
    rows.forEach((row, i) => {
      if (row === null || typeof row !== 'object' || Array.isArray(row)) throw new TypeError(`${name}[${i}] is no object: give rows such as {name: value}`);
    });
  }
  const keys = (Array.isArray(on) ? on : [on]).map((key) => (typeof key === 'string' ? { left: key, right: key } : key));
  if (keys.length === 0 || keys.some((key) => typeof key?.left !== 'string' || typeof key?.right !== 'string')) {
    throw new TypeError('on is missing: give a field such as "id", {left: "mail", right: "email"}, or a list of these');
  }
  if (!KINDS.includes(kind)) throw new TypeError(`kind has to be one of ${KINDS.join(', ')}`);
  let threshold;
  if (fuzzy !== undefined && fuzzy !== false) {
    threshold = fuzzy?.threshold ?? 0.8;
    if (typeof threshold !== 'number' || !(threshold >= 0.5 && threshold <= 1)) throw new TypeError('fuzzy has to be {threshold: number from 0.5 to 1}');
  }
  return { left, right, on: keys, kind, normalise: normalise || threshold !== undefined, threshold };
}

const valueOf = (row, field) => (Object.hasOwn(row, field) ? row[field] : undefined);

// exact and normalised return the text of one value of a key; equal values have equal texts.
function exact(value) {
  return typeof value === 'string' ? `s${value}` : `${typeof value}${JSON.stringify(value)}`;
}

function normalised(value) {
  return (typeof value === 'object' ? JSON.stringify(value) : String(value)).normalize('NFKC').trim().replace(/\s+/g, ' ').toLowerCase();
}

// index returns the key's text of each row, null for none, and the rows by key.
function index(rows, fields, text) {
  const entries = new Map();
  const keys = rows.map((row, i) => {
    const values = fields.map((field) => valueOf(row, field));
    if (values.some((value) => value === undefined || value === null || value === '')) return null;
    const parts = values.map(text);
    if (parts.includes('')) return null; // only spaces
    // The lengths keep ["ab", "c"] apart from ["a", "bc"].
    const key = parts.length === 1 ? parts[0] : parts.map((part) => `${part.length}:${part}`).join('');
    const entry = entries.get(key);
    if (entry) entry.rows.push(i);
    else entries.set(key, { key: values, parts, rows: [i] });
    return key;
  });
  return { keys, entries };
}

function duplicates({ entries }) {
  const found = [];
  for (const { key, rows } of entries.values()) {
    if (rows.length > 1 && found.push({ key, count: rows.length }) === MAX_DUPLICATES) break;
  }
  return found;
}

function compareTypes(on, sides, problems) {
  on.forEach((key, i) => {
    const types = ['left', 'right'].map((side) => {
      const all = new Set();
      for (const entry of sides[side].entries.values()) all.add(typeof entry.key[i]);
      return [...all];
    });
    const [a, b] = types;
    if (a.length === 1 && b.length === 1 && a[0] !== b[0]) {
      problems.push(`"${key.left}" has ${a[0]}s on the left and "${key.right}" ${b[0]}s on the right, which are never equal: set normalise`);
    }
  });
}

// rowMaker returns a function that joins a left and a right row, of which one may be null.
function rowMaker(left, right, on, keepRightKeys) {
  const namesOf = (rows) => {
    const names = new Set();
    for (const row of rows) for (const name of Object.keys(row)) names.add(name);
    return names;
  };
  const leftNames = namesOf(left);
  for (const key of on) leftNames.add(key.left);
  const rightNames = namesOf(right);
  const shared = new Set(on.filter((key) => key.left === key.right).map((key) => key.left));
  const taken = new Set(leftNames);
  const renamed = new Map();
  for (const name of rightNames) {
    if (shared.has(name) && !keepRightKeys) continue;
    let free = name;
    for (let n = 1; taken.has(free) || (free !== name && rightNames.has(free)); n++) free = n === 1 ? `${name}_right` : `${name}_right_${n}`;
    taken.add(free);
    renamed.set(name, free);
  }
  return (a, b) => {
    const made = {};
    if (a) for (const name of Object.keys(a)) set(made, name, a[name]);
    else for (const name of leftNames) set(made, name, shared.has(name) ? (valueOf(b, name) ?? null) : null);
    for (const [name, to] of renamed) {
      if (b === null) set(made, to, null);
      else if (Object.hasOwn(b, name)) set(made, to, b[name]);
    }
    return made;
  };
}

// set makes an own field even of "__proto__".
function set(row, name, value) {
  if (name === '__proto__') Object.defineProperty(row, name, { value, writable: true, enumerable: true, configurable: true });
  else row[name] = value;
}

// similar joins the keys of the left side that have no match with the most similar key of the right side that has none.
function similar(sides, matches, threshold, { fuzzy, ambiguous, problems }) {
  let tokens = 0;
  const candidates = (entries, used) => {
    const found = [];
    for (const [key, entry] of entries) {
      if (used(key)) continue;
      const text = entry.parts.join(' ');
      if (TOKEN.test(text)) tokens++;
      else found.push({ key, entry, grams: grams(text) });
    }
    if (found.length > MAX_FUZZY) throw new RangeError(`${found.length} keys did not match, more than ${MAX_FUZZY} that fuzzy compares: check on, or give fewer rows`);
    return found;
  };
  const lefts = candidates(sides.left.entries, (key) => matches.has(key));
  const rights = candidates(sides.right.entries, (key) => sides.left.entries.has(key));
  if (tokens > 0) problems.push(`${tokens} ${tokens === 1 ? 'key has a token' : 'keys have tokens'} of personal data and ${tokens === 1 ? 'was' : 'were'} compared for equality only`);

  // Rare pairs of characters come first in each key. Two keys with the similarity asked for share one of their first few pairs
  // (prefix filtering), so only keys that do are compared.
  const frequency = new Map();
  for (const side of [lefts, rights]) for (const { grams: all } of side) for (const g of all) frequency.set(g, (frequency.get(g) ?? 0) + 1);
  const rarest = (a, b) => frequency.get(a) - frequency.get(b) || (a < b ? -1 : 1);
  const prefix = (all) => all.slice(0, all.length - Math.ceil((threshold * all.length) / (2 - threshold) - 1e-9) + 1);
  for (const side of [lefts, rights]) for (const one of side) one.grams.sort(rarest);
  const places = new Map();
  rights.forEach((one, i) => {
    one.set = new Set(one.grams);
    for (const g of prefix(one.grams)) {
      const list = places.get(g);
      if (list) list.push(i);
      else places.set(g, [i]);
    }
  });

  let pairs = 0;
  for (const { key, entry, grams: own } of lefts) {
    const seen = new Set();
    let best = threshold - 1e-9;
    let found = [];
    for (const g of prefix(own)) {
      for (const i of places.get(g) ?? []) {
        if (seen.has(i)) continue;
        seen.add(i);
        const other = rights[i];
        const most = (2 * Math.min(own.length, other.set.size)) / (own.length + other.set.size);
        if (most < best) continue;
        if (++pairs > MAX_PAIRS) throw new RangeError('too many keys are alike to be compared: raise fuzzy.threshold, or give keys that tell more');
        let common = 0;
        for (const gram of own) if (other.set.has(gram)) common++;
        const score = (2 * common) / (own.length + other.set.size);
        if (score > best + 1e-12) [best, found] = [score, [other]];
        else if (score >= best && found.length > 0) found.push(other);
        else if (score >= best) [best, found] = [score, [other]];
      }
    }
    const score = Math.round(best * 1000) / 1000;
    if (found.length === 1) {
      matches.set(key, [found[0].entry]);
      fuzzy.push({ left: entry.key, right: found[0].entry.key, score });
    } else if (found.length > 1) {
      ambiguous.push({ left: entry.key, right: found.slice(0, 10).map((one) => one.entry.key), score });
    }
  }
}

// grams returns the different pairs of neighbouring characters of a text without accents, with a space at both ends.
function grams(text) {
  const plain = [...` ${text.normalize('NFKD').replace(/\p{M}/gu, '')} `];
  const all = new Set();
  for (let i = 1; i < plain.length; i++) all.add(plain[i - 1] + plain[i]);
  return [...all];
}
