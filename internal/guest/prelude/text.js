// JSON as text. Frames are put together from text, never from objects, so that neither a toJSON method nor a setter of
// the guest's takes part.

import { jsonStringify, regExpExec } from './intrinsics.js';

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
const threeBytes = /[\u0800-\ud7ff\ue000-\uffff]+/g; // a surrogate pair is four: two for each of its units

// fits says whether text has at most limit bytes in UTF-8. A limit of 0 is no limit. The engine's own loops do the
// counting: a loop over every character of a few megabytes would take a second.
export function fits(text, limit) {
  if (!limit || text.length * 3 <= limit) return true;
  return text.length + unitsIn(text, beyondASCII) + unitsIn(text, threeBytes) <= limit;
}

function unitsIn(text, runs) {
  let units = 0;
  runs.lastIndex = 0;
  for (let found; (found = regExpExec(runs, text)) !== null;) units += found[0].length;
  return units;
}
