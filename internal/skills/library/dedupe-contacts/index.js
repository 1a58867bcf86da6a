/**
 * Skill: dedupe-contacts
 * Purpose: Finds contacts that are the same by equal values, or by equal tokens of personal data, and merges them.
 * Version: 1.0
 * Usage: import dedupe from '/skills/dedupe-contacts/index.js'; const {groups} = await dedupe({contacts})
 */

const MATCH = [['email'], ['phone', 'name']];
const FIELDS = { email: ['email', 'emails', 'mail'], phone: ['phone', 'phones', 'mobile', 'telephone'], name: ['name'] };
const MAX_SHARED = 20;
const MAX_COMBINATIONS = 50; // keys of one contact by one rule
const MAX_LINKS = 50; // links that are listed of a group
const MAX_TOKENS = 10_000; // tokens that sortKey is asked about
const MAX_CONFLICTS = 20; // values that are listed of a field

const TOKEN = /\[[A-Z][A-Z0-9_]*_\d+\]/;
const TOKENS = /\[[A-Z][A-Z0-9_]*_\d+\]/g;
const NATURAL = /pii_\d+|pii\.invalid/i;
const ADDRESSES = /\[(?:EMAIL|LITERAL)(?:_[A-Z]+)*_\d+\]|[^\s<>,;"'()]+@[^\s<>,;"'()]+/g;
const NOTHING = new Set(['', '-', '--', 'n/a', 'na', 'none', 'null', 'nil', 'unknown']);

export default async function dedupe(input) {
  const { contacts, match, fields, maxShared, sortKey } = checked(input);
  const problems = [];
  const spellings = sortKey ? await spellingsOf(contacts, match, fields, sortKey) : new Map();
  const valuesOf = (contact, thing) => {
    const found = new Map(); // what is compared -> the value as it is written
    for (const field of fields.get(thing) ?? [thing]) {
      if (!Object.hasOwn(contact, field)) continue;
      for (const value of Array.isArray(contact[field]) ? contact[field] : [contact[field]]) {
        for (const [key, text] of compared(value, thing, spellings)) if (!found.has(key)) found.set(key, text);
      }
    }
    return [...found];
  };

  // A key is a rule with the values of a contact. Contacts with a key in common are the same.
  const keys = new Map();
  let cut = 0;
  contacts.forEach((contact, i) => {
    match.forEach((rule, r) => {
      let combinations = [{ key: String(r), values: [] }];
      for (const thing of rule) {
        const next = [];
        const values = valuesOf(contact, thing);
        for (const { key, values: before } of combinations) {
          for (const [part, text] of values) next.push({ key: `${key}|${part.length}:${part}`, values: [...before, text] });
        }
        combinations = next.slice(0, MAX_COMBINATIONS);
        if (next.length > MAX_COMBINATIONS) cut++;
      }
      for (const { key, values } of combinations) {
        const known = keys.get(key);
        if (known) known.contacts.push(i);
        else keys.set(key, { by: rule, values, contacts: [i] });
      }
    });
  });
  if (cut > 0) problems.push(`${cut} ${cut === 1 ? 'contact has' : 'contacts have'} more than ${MAX_COMBINATIONS} values for a rule; the first ones were compared`);

  const sets = new Sets(contacts.length);
  const shared = [];
  const links = [];
  for (const one of keys.values()) {
    const n = one.contacts.length;
    if (n > maxShared) shared.push({ by: one.by, values: one.values, count: n });
    else if (n > 1) {
      links.push(one);
      for (const i of one.contacts) sets.join(one.contacts[0], i);
    }
  }
  shared.sort((a, b) => b.count - a.count);
  if (shared.length > 0) problems.push(`${shared.length} ${shared.length === 1 ? 'value is' : 'values are'} shared by more than ${maxShared} contacts and joined none of them; see shared`);

  const members = new Map();
  contacts.forEach((_, i) => {
    const root = sets.root(i);
    if (members.has(root)) members.get(root).push(i);
    else members.set(root, [i]);
  });
  const linksOf = new Map();
  for (const link of links) {
    const root = sets.root(link.contacts[0]);
    const list = linksOf.get(root) ?? [];
    if (list.length < MAX_LINKS) list.push(link);
    linksOf.set(root, list);
  }
  const groups = [];
  const all = [];
  for (const [root, places] of members) {
    if (places.length === 1) {
      all.push(contacts[places[0]]);
      continue;
    }
    const group = { contacts: places, links: linksOf.get(root), ...merge(places.map((i) => contacts[i])) };
    groups.push(group);
    all.push(group.merged);
  }
  return {
    groups,
    contacts: all,
    shared: shared.slice(0, 100),
    counts: { contacts: contacts.length, groups: groups.length, duplicates: contacts.length - all.length, unique: all.length },
    problems,
  };
}

function checked(input) {
  const { contacts, match = MATCH, fields = {}, maxShared = MAX_SHARED, sortKey } = input ?? {};
  if (!Array.isArray(contacts)) throw new TypeError('contacts is missing: give a list of objects');
  contacts.forEach((contact, i) => {
    if (contact === null || typeof contact !== 'object' || Array.isArray(contact)) throw new TypeError(`contacts[${i}] is no object: give contacts such as {name, email, phone}`);
  });
  const isNames = (list) => Array.isArray(list) && list.length > 0 && list.every((name) => typeof name === 'string' && name !== '');
  if (!Array.isArray(match) || match.length === 0 || !match.every(isNames)) throw new TypeError('match has to be a list of rules, such as [["email"], ["phone", "name"]]');
  if (fields === null || typeof fields !== 'object' || !Object.values(fields).every(isNames)) throw new TypeError('fields has to be an object of lists of fields, such as {email: ["work_mail"]}');
  if (!Number.isInteger(maxShared) || maxShared < 2) throw new TypeError('maxShared has to be a whole number above 1');
  if (sortKey !== undefined && typeof sortKey !== 'function') throw new TypeError('sortKey has to be the function pii.sortKey');
  return { contacts, match, maxShared, sortKey, fields: new Map([...Object.entries(FIELDS), ...Object.entries(fields)]) };
}

// compared returns what is compared of a value, with the text as it is written: one pair, or one for each address or number in it.
function compared(value, thing, spellings) {
  if (value === null || value === undefined || typeof value === 'boolean') return [];
  const text = (typeof value === 'object' ? JSON.stringify(value) : String(value)).normalize('NFKC').trim();
  let parts = [text];
  if (thing === 'email') parts = text.match(ADDRESSES) ?? [text];
  if (thing === 'phone') parts = text.split(/\s*[;,]\s*/);
  return parts.map((part) => [normalised(part, thing, spellings), part]).filter(([key]) => !NOTHING.has(key));
}

function normalised(text, thing, spellings) {
  if (TOKEN.test(text)) return text.replace(TOKENS, (token) => spellings.get(token) ?? token).replace(/\s+/g, ' ').toLowerCase();
  if (thing === 'phone' && !NATURAL.test(text)) {
    const digits = text.replace(/^\s*00/, '+').replace(/\(0\)/g, '').replace(/[^\d+]/g, '');
    if (digits.length > 3) return digits;
  }
  return text.replace(/\s+/g, ' ').toLowerCase();
}

// spellingsOf asks for the key of each token that a rule compares: it is the same for all spellings of a value.
async function spellingsOf(contacts, match, fields, sortKey) {
  const tokens = new Set();
  for (const thing of new Set(match.flat())) {
    for (const field of fields.get(thing) ?? [thing]) {
      for (const contact of contacts) {
        const value = Object.hasOwn(contact, field) ? contact[field] : null;
        const text = typeof value === 'string' ? value : Array.isArray(value) ? value.join(' ') : '';
        for (const token of text.match(TOKENS) ?? []) tokens.add(token);
      }
    }
  }
  if (tokens.size > MAX_TOKENS) throw new RangeError(`there are ${tokens.size} different tokens, more than ${MAX_TOKENS} that sortKey is asked about: leave sortKey out, or give fewer contacts`);
  const spellings = new Map();
  await Promise.all([...tokens].map(async (token) => {
    const key = await sortKey(token).catch(() => null); // a text that only looks like a token has no key
    if (typeof key === 'string') spellings.set(token, `[key ${key}]`);
  }));
  return spellings;
}

// Sets joins places into sets; each set has a root.
class Sets {
  #parents;

  constructor(size) {
    this.#parents = Int32Array.from({ length: size }, (_, i) => i);
  }

  root(i) {
    const parents = this.#parents;
    while (parents[i] !== i) {
      parents[i] = parents[parents[i]];
      i = parents[i];
    }
    return i;
  }

  // join keeps the smaller root, so that a set begins where its first contact is.
  join(a, b) {
    const [low, high] = [this.root(a), this.root(b)].sort((x, y) => x - y);
    this.#parents[high] = low;
  }
}

// merge returns a contact with the first values of all, and the fields in which they differ.
function merge(all) {
  const fields = new Map();
  for (const contact of all) {
    for (const [field, value] of Object.entries(contact)) {
      if (!fields.has(field)) fields.set(field, new Map());
      const seen = fields.get(field);
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one === null || one === undefined || one === '') continue;
        const key = typeof one === 'string' ? one.normalize('NFKC').trim().replace(/\s+/g, ' ').toLowerCase() : JSON.stringify(one);
        if (!seen.has(key)) seen.set(key, one);
      }
    }
  }
  const merged = [];
  const conflicts = [];
  for (const [field, seen] of fields) {
    const values = [...seen.values()];
    const list = all.some((contact) => Object.hasOwn(contact, field) && Array.isArray(contact[field]));
    merged.push([field, list ? values : (values[0] ?? null)]);
    if (!list && values.length > 1) conflicts.push({ field, values: values.slice(0, MAX_CONFLICTS) });
  }
  return { merged: Object.fromEntries(merged), conflicts };
}
