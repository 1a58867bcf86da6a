// Strings as inspect prints them: quoted and escaped as Node does, and measured in terminal columns.

import { charCodeAt, numberToString, padStart, repeat, strIncludes, toUpperCase } from '../intrinsics.js';
import { library } from '../libraries.js';
import { replace, test } from '../text.js';

const named = { __proto__: null, 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r', 92: '\\\\', 39: "\\'" };
const suspect = /[\x00-\x1f'\x7f-\x9f\\\ud800-\udfff]/; // most strings have none of these, and finding that out is quick
const special = /[\x00-\x1f\x7f-\x9f\\]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const specialOrQuote = new RegExp(`'|${special.source}`, 'g');

// escape replaces control characters, backslashes, lone surrogates, and single quotes where they are to be.
export function escape(string, quotes = false) {
  if (!test(suspect, string)) return string;
  return replace(quotes ? specialOrQuote : special, string, (found) => {
    const code = charCodeAt(found[0], 0);
    const digits = numberToString(code, 16);
    return named[code] ?? (code < 160 ? `\\x${toUpperCase(padStart(digits, 2, '0'))}` : `\\u${digits}`);
  });
}

// quoted puts a string in single quotes, or in those of double quotes and backticks that need no escaping.
export function quoted(string) {
  if (!strIncludes(string, "'")) return `'${escape(string)}'`;
  if (!strIncludes(string, '"')) return `"${escape(string)}"`;
  if (!strIncludes(string, '`') && !strIncludes(string, '${')) return `\`${escape(string)}\``;
  return `'${escape(string, true)}'`;
}

// isName says whether a property name needs no quotes.
export function isName(key) {
  return test(/^[a-zA-Z_][a-zA-Z_0-9]*$/, key);
}

// indent puts spaces before every line of text but the first.
export function indent(text, columns) {
  if (columns === 0 || !strIncludes(text, '\n')) return text;
  const margin = `\n${repeat(' ', columns)}`;
  return replace(/\n/g, text, () => margin);
}

// width is the number of terminal columns of a text.
export const width = (text) => (test(/^[ -~]*$/, text) ? text.length : library('width', text));
