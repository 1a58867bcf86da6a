// Texts, and JSON as text. Frames are put together from text, never from objects, so that neither a toJSON method nor a setter of
// the guest's takes part.

import { charCodeAt, floor, jsonStringify, min, regExpExec, strSlice } from './intrinsics.js';

// test says whether an expression matches.
export const test = (re, text) => regExpExec(re, text) !== null;

// replace is String.prototype.replace for a global expression and a function, without its look-ups by symbol: fn gets
// the match array.
export function replace(re, text, fn) {
  let out = '';
  let from = 0;
  re.lastIndex = 0;
  for (let m; (m = regExpExec(re, text)); ) {
    out += strSlice(text, from, m.index) + fn(m);
    from = m.index + m[0].length;
    if (m[0] === '') re.lastIndex++;
  }
  return out + strSlice(text, from);
}

// quote returns a string as JSON.
export function quote(string) {
  return jsonStringify(string);
}

// record returns a JSON object of names, which are ours and need no quoting, and values that are already JSON; an
// undefined value leaves its name out: record('path', quote(path), 'recursive', undefined).
export function record(...pairs) {
  let text = '';
  for (let i = 0; i < pairs.length; i += 2) {
    if (pairs[i + 1] !== undefined) text += `${text === '' ? '' : ','}"${pairs[i]}":${pairs[i + 1]}`;
  }
  return `{${text}}`;
}

const beyondASCII = /[^\x00-\x7f]+/g; // each unit is two bytes or more
const threeBytes = /[\u0800-\uffff]+/gu; // a surrogate pair, which this leaves out, is four: two for each of its units

// fits says whether text has at most limit bytes in UTF-8. A limit of 0 is no limit. The engine's own loops do the
// counting: a loop over every character of a few megabytes would take a second.
export function fits(text, limit) {
  if (!limit || text.length * 3 <= limit) return true;
  if (text.length > limit) return false;
  return utf8Length(text) <= limit;
}

// utf8Length is the number of bytes of a text in UTF-8; a lone surrogate is the three bytes of U+FFFD.
export const utf8Length = (text) => text.length + unitsIn(text, beyondASCII) + unitsIn(text, threeBytes);

function unitsIn(text, runs) {
  let units = 0;
  runs.lastIndex = 0;
  for (let found; (found = regExpExec(runs, text)) !== null;) units += found[0].length;
  return units;
}

// clip returns text, or of one with more than limit bytes in UTF-8 the beginning and how much is left out.
export function clip(text, limit) {
  if (fits(text, limit)) return text;
  const room = limit - 40; // for the note
  let low = 0;
  let high = min(text.length, room);
  while (low < high) {
    const middle = high - floor((high - low) / 2);
    if (fits(strSlice(text, 0, middle), room)) low = middle;
    else high = middle - 1;
  }
  if (low > 0 && (charCodeAt(text, low - 1) & 0xfc00) === 0xd800) low--; // half a surrogate pair
  return `${strSlice(text, 0, low)}… (${text.length - low} characters more)`;
}
