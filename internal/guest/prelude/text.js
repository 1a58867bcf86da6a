// JSON as text. Frames are put together from text, never from objects, so that neither a toJSON method nor a setter of
// the guest's takes part.

import { charCodeAt, join, jsonStringify, list } from './intrinsics.js';

// quote returns a string as JSON.
export function quote(string) {
  return jsonStringify(string);
}

// record returns a JSON object of names and values that are already JSON; an undefined value leaves its name out:
// record('path', quote(path), 'recursive', undefined).
export function record(...pairs) {
  const parts = list();
  for (let i = 0; i < pairs.length; i += 2) {
    if (pairs[i + 1] !== undefined) parts[parts.length] = `${quote(pairs[i])}:${pairs[i + 1]}`;
  }
  return `{${join(parts, ',')}}`;
}

// fits says whether text has at most limit bytes in UTF-8. A limit of 0 is no limit.
export function fits(text, limit) {
  if (!limit || text.length * 3 <= limit) return true;
  if (text.length > limit) return false;
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code < 0x80) continue;
    // A surrogate pair is four bytes: two for each of its units, one of which is counted already.
    bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
    if (bytes > limit) return false;
  }
  return true;
}
