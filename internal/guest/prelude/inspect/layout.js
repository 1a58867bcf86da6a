// How the entries of an object are put on lines. It follows the algorithm of Node's util.inspect with compact: 3, so that
// what a program prints here reads as it would there.

import { floor, join, list, max, min, padEnd, padStart, repeat, round, sqrt, strIncludes } from '../intrinsics.js';
import { width } from './strings.js';

// The kinds of what is laid out: only those with elements are grouped into columns.
export const objectLike = 0;
export const arrayElement = 1;
export const arrayLike = 2;

// layout joins entries between braces, on one line if they fit, else on one line each. base stands before the braces;
// elements, for arrays, tells numbers, which are aligned right.
export function layout(ctx, entries, base, braces, kind, depth, elements) {
  const lead = base ? `${base} ` : '';
  if (ctx.compact >= 1) {
    const count = entries.length;
    if (kind === arrayLike && count > 6) entries = group(ctx, entries, elements);
    // Only the innermost levels, as many as compact says, go on a single line.
    if (ctx.currentDepth - depth < ctx.compact && count === entries.length) {
      const start = entries.length + ctx.indentation + braces[0].length + base.length + 10;
      if (fitsLine(ctx, entries, start, base)) {
        const line = join(entries, ', ');
        if (!strIncludes(line, '\n')) return `${lead}${braces[0]} ${line} ${braces[1]}`;
      }
    }
  }
  const margin = `\n${repeat(' ', ctx.indentation)}`;
  return `${lead}${braces[0]}${margin}  ${join(entries, `,${margin}  `)}${margin}${braces[1]}`;
}

function fitsLine(ctx, entries, start, base) {
  let total = entries.length + start;
  if (total + entries.length > ctx.breakLength) return false;
  for (let i = 0; i < entries.length; i++) {
    total += entries[i].length;
    if (total > ctx.breakLength) return false;
  }
  return base === '' || !strIncludes(base, '\n');
}

// group puts more than six short entries into columns.
function group(ctx, entries, elements) {
  const separator = 2; // a comma and a space
  const more = ctx.maxArrayLength < entries.length; // the last entry is "... n more items"
  const count = more ? entries.length - 1 : entries.length;
  const widths = list();
  let total = 0;
  let longest = 0;
  for (let i = 0; i < count; i++) {
    const w = width(entries[i]);
    widths[i] = w;
    total += w + separator;
    longest = max(longest, w);
  }
  const cell = longest + separator;
  // Columns need room for three, and entries that differ little in length.
  if (!(cell * 3 + ctx.indentation < ctx.breakLength && (total / cell > 5 || longest <= 6))) return entries;

  const bias = max(cell - 3 - sqrt(cell - total / entries.length), 1);
  const columns = min(
    round(sqrt(2.5 * bias * count) / bias), // roughly a square: a character is about 2.5 times as high as wide
    floor((ctx.breakLength - ctx.indentation) / cell),
    ctx.compact * 4,
    15,
  );
  if (columns <= 1) return entries;

  const columnWidths = list();
  for (let i = 0; i < columns; i++) {
    let w = 0;
    for (let j = i; j < count; j += columns) w = max(w, widths[j]);
    columnWidths[i] = w + separator;
  }
  const pad = allNumbers(elements, entries.length) ? padStart : padEnd;
  const lines = list();
  for (let i = 0; i < count; i += columns) {
    const end = min(i + columns, count);
    let line = '';
    let j = i;
    const room = () => columnWidths[j - i] + entries[j].length - widths[j]; // wide characters take more than their length
    for (; j < end - 1; j++) line += pad(`${entries[j]}, `, room(), ' ');
    line += pad === padStart ? padStart(entries[j], room() - separator, ' ') : entries[j];
    lines[lines.length] = line;
  }
  if (more) lines[lines.length] = entries[count];
  return lines;
}

function allNumbers(elements, count) {
  if (elements === undefined) return true;
  for (let i = 0; i < count; i++) {
    const type = typeof elements(i);
    if (type !== 'number' && type !== 'bigint') return false;
  }
  return true;
}
