// Strings as inspect prints them: quoted and escaped as Node does, and measured in terminal columns.

import {
  charCodeAt, fromCharCode, numberToString, padStart, regExpExec, repeat, strIncludes, strIndexOf, strSlice,
} from '../intrinsics.js';

const named = { __proto__: null, 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r', 92: '\\\\', 39: "\\'" };
const hex = (code) => padStart(numberToString(code, 16), 2, '0');

// escape replaces control characters, backslashes and lone surrogates, and quotes where quote is the quote's code.
export function escape(string, quote) {
  let result = '';
  let done = 0;
  for (let i = 0; i < string.length; i++) {
    const code = charCodeAt(string, i);
    let text;
    if (code === quote || code === 92 || code < 32) {
      text = named[code] ?? `\\x${toUpper(hex(code))}`;
    } else if (code < 127) {
      continue;
    } else if (code < 160) {
      text = `\\x${toUpper(hex(code))}`;
    } else if (code >= 0xd800 && code <= 0xdfff) {
      const next = code <= 0xdbff && i + 1 < string.length ? charCodeAt(string, i + 1) : 0;
      if (next >= 0xdc00 && next <= 0xdfff) {
        i++;
        continue;
      }
      text = `\\u${numberToString(code, 16)}`;
    } else {
      continue;
    }
    result += strSlice(string, done, i) + text;
    done = i + 1;
  }
  return done === 0 ? string : result + strSlice(string, done);
}

function toUpper(digits) {
  let text = '';
  for (let i = 0; i < digits.length; i++) {
    const code = charCodeAt(digits, i);
    text += fromCharCode(code >= 97 ? code - 32 : code);
  }
  return text;
}

// quoted puts a string in single quotes, or in those of double quotes and backticks that need no escaping.
export function quoted(string) {
  if (!strIncludes(string, "'")) return `'${escape(string, 0)}'`;
  if (!strIncludes(string, '"')) return `"${escape(string, 0)}"`;
  if (!strIncludes(string, '`') && !strIncludes(string, '${')) return `\`${escape(string, 0)}\``;
  return `'${escape(string, 39)}'`;
}

// isName says whether a property name needs no quotes.
export function isName(key) {
  return regExpExec(/^[a-zA-Z_][a-zA-Z_0-9]*$/, key) !== null;
}

// indent puts spaces before every line of text but the first.
export function indent(text, columns) {
  if (columns === 0 || !strIncludes(text, '\n')) return text;
  const margin = `\n${repeat(' ', columns)}`;
  let result = '';
  let from = 0;
  for (let at; (at = strIndexOf(text, '\n', from)) >= 0; from = at + 1) result += strSlice(text, from, at) + margin;
  return result + strSlice(text, from);
}

// width is the number of terminal columns of a text: none for control and combining characters, two for wide ones.
export function width(text) {
  let columns = 0;
  for (let i = 0; i < text.length; i++) {
    let code = charCodeAt(text, i);
    if (code >= 32 && code < 127) {
      columns++;
      continue;
    }
    if (code >= 0xd800 && code <= 0xdbff && i + 1 < text.length) {
      code = (code - 0xd800) * 0x400 + (charCodeAt(text, ++i) - 0xdc00) + 0x10000;
    }
    if (isWide(code)) columns += 2;
    else if (!isZeroWidth(code)) columns++;
  }
  return columns;
}

function isZeroWidth(code) {
  return code <= 0x1f || (code >= 0x7f && code <= 0x9f) || (code >= 0x300 && code <= 0x36f) ||
    (code >= 0x200b && code <= 0x200f) || (code >= 0x20d0 && code <= 0x20ff) || (code >= 0xfe00 && code <= 0xfe0f) ||
    (code >= 0xfe20 && code <= 0xfe2f) ||
    (code >= 0xe0100 && code <= 0xe01ef);
}

// isWide follows Unicode's East Asian Width (W and F) in ranges, as Node does without ICU.
function isWide(code) {
  return code >= 0x1100 && (
    code <= 0x115f || code === 0x2329 || code === 0x232a || (code >= 0x2e80 && code <= 0x3247 && code !== 0x303f) ||
    (code >= 0x3250 && code <= 0x4dbf) || (code >= 0x4e00 && code <= 0xa4c6) || (code >= 0xa960 && code <= 0xa97c) ||
    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe10 && code <= 0xfe19) ||
    (code >= 0xfe30 && code <= 0xfe6b) || (code >= 0xff01 && code <= 0xff60) || (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1b000 && code <= 0x1b001) || (code >= 0x1f200 && code <= 0x1f251) ||
    (code >= 0x1f300 && code <= 0x1f64f) || (code >= 0x1f900 && code <= 0x1f9ff) || (code >= 0x20000 && code <= 0x3fffd)
  );
}
