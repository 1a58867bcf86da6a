/**
 * Skill: template
 * Purpose: Counts how often each value of a field occurs in rows. A beginning for a skill of your own.
 * Version: 1.0
 * Usage: import count from '/skills/template/index.js'; const {counts} = await count({rows, field: 'country'})
 */

// Bounds are constants at the top, where a reader finds them.
const DEFAULT_LIMIT = 20;

// The default export is the skill. It takes one object and returns one value that JSON can hold, so that it can be called as a tool, too.
export default async function count(input) {
  // 1. Check the input first. A message says what was given and what to give instead.
  const { rows, field, limit = DEFAULT_LIMIT } = checked(input);

  // 2. Do the work in one pass. A Map takes any text as a key, also "__proto__", and finds it at once however many there are.
  const found = new Map();
  let missing = 0;
  for (const row of rows) {
    const value = valueOf(row, field);
    if (value === undefined || value === null || value === '') {
      missing++;
      continue;
    }
    // JSON tells 1 from "1", and compares objects by what they hold.
    const key = JSON.stringify(value);
    const entry = found.get(key);
    if (entry) entry.count++;
    else found.set(key, { value, count: 1 });
  }

  // 3. Return a summary, not everything: what is returned is read by a model.
  const counts = [...found.values()].sort((a, b) => b.count - a.count).slice(0, limit);
  return { rows: rows.length, missing, distinct: found.size, counts };
}

function checked(input) {
  if (input === null || typeof input !== 'object') throw new TypeError('give an object {rows, field}');
  if (!Array.isArray(input.rows)) throw new TypeError('rows is missing: give a list of objects');
  if (typeof input.field !== 'string') throw new TypeError('field is missing: give the name of the field whose values are counted');
  if (input.limit !== undefined && !(Number.isInteger(input.limit) && input.limit > 0)) throw new TypeError('limit has to be a whole number above 0');
  return input;
}

// valueOf reads an own field only: every object inherits "constructor" and others, which are no values of a row.
function valueOf(row, field) {
  return row !== null && typeof row === 'object' && Object.hasOwn(row, field) ? row[field] : undefined;
}
