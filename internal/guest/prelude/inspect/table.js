// console.table's boxes, as Node draws them.

import {
  isArray, join, keys as ownNames, list, mapForEach, mapGet, mapSet, max, NativeMap, getOwnPropertyDescriptor, push,
  repeat, setForEach,
} from '../intrinsics.js';
import { kindOf, peek, proxyOf } from '../brands.js';
import { inspect } from './inspect.js';
import { width } from './strings.js';

function cell(value) {
  const wide = value !== null && typeof value === 'object' && !isArray(value) && kindOf(value) !== 'TypedArray' &&
    !proxyOf(value) && ownNames(value).length > 2;
  return inspect(value, { __proto__: null, depth: wide ? -1 : 0, maxArrayLength: 3, breakLength: Infinity });
}

function row(cells, widths) {
  let line = '│ ';
  for (let i = 0; i < widths.length; i++) {
    const text = cells[i] ?? '';
    line += text + repeat(' ', widths[i] - width(text)) + (i < widths.length - 1 ? ' │ ' : ' │');
  }
  return line;
}

function draw(head, rows) {
  const widths = list();
  for (let i = 0; i < head.length; i++) {
    let w = width(head[i]);
    for (let j = 0; j < rows.length; j++) w = max(w, width(rows[j][i] ?? ''));
    push(widths, w);
  }
  const bars = list();
  for (let i = 0; i < widths.length; i++) push(bars, repeat('─', widths[i] + 2));
  let text = `┌${join(bars, '┬')}┐\n${row(head, widths)}\n├${join(bars, '┼')}┤\n`;
  for (let i = 0; i < rows.length; i++) text += `${row(rows[i], widths)}\n`;
  return `${text}└${join(bars, '┴')}┘`;
}

function cells(...texts) {
  const made = list();
  for (let i = 0; i < texts.length; i++) push(made, texts[i]);
  return made;
}

// table returns data as a table: a row for each element, a column for each property, or those that columns names.
// Data that has no rows is undefined.
export function table(data, columns) {
  if (data === null || typeof data !== 'object' || proxyOf(data)) return undefined;
  const rows = list();
  const kind = kindOf(data);
  if (kind === 'Map') {
    mapForEach(data, (value, key) => push(rows, cells(`${rows.length}`, cell(key), cell(value))));
    return draw(cells('(iteration index)', 'Key', 'Values'), rows);
  }
  if (kind === 'Set') {
    setForEach(data, (value) => push(rows, cells(`${rows.length}`, cell(value))));
    return draw(cells('(iteration index)', 'Values'), rows);
  }

  const head = cells('(index)');
  const at = new NativeMap(); // column name -> its place in head
  const column = (name) => {
    if (mapGet(at, name) === undefined) {
      mapSet(at, name, head.length);
      push(head, name);
    }
    return mapGet(at, name);
  };
  const names = ownNames(data);
  const bare = list(); // values that have no properties: they get a column of their own, the last
  for (let i = 0; i < names.length; i++) {
    const item = peek(data, names[i]);
    const line = cells(names[i]);
    push(rows, line);
    const primitive = item === null || (typeof item !== 'object' && typeof item !== 'function');
    if (primitive && columns === undefined) {
      bare[i] = cell(item);
      continue;
    }
    const properties = columns ?? (proxyOf(item) ? [] : ownNames(item));
    for (let j = 0; j < properties.length; j++) {
      const place = column(`${properties[j]}`);
      const has = !primitive && !proxyOf(item) && getOwnPropertyDescriptor(item, properties[j]);
      if (has) line[place] = cell(peek(item, properties[j]));
    }
  }
  if (bare.length > 0) {
    push(head, 'Values');
    for (let i = 0; i < rows.length; i++) {
      if (bare[i] !== undefined) rows[i][head.length - 1] = bare[i];
    }
  }
  return draw(head, rows);
}
