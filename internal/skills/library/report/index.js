/**
 * Skill: report
 * Purpose: Writes a report in Markdown and HTML from texts, lists, facts and rows, with everything escaped.
 * Version: 1.0
 * Usage: import report from '/skills/report/index.js'; const {html} = await report({title, sections: [{heading, rows}]})
 */

const FORMATS = ['markdown', 'html', 'both'];
const COLUMN_FORMATS = ['text', 'number', 'percent', 'currency'];
const PARTS = ['heading', 'text', 'facts', 'items', 'ordered', 'rows', 'columns', 'totals', 'maxRows'];
const DEFAULT_ROWS = 500;
const MAX_COLUMNS = 100;

export default async function report(input) {
  const { title, subtitle, sections, format = 'both', locale = 'en-US', language = 'en' } = input ?? {};
  if (typeof title !== 'string' || title.trim() === '') throw new TypeError('title is missing: give a text');
  if (subtitle !== undefined && typeof subtitle !== 'string') throw new TypeError('subtitle has to be a text');
  if (!Array.isArray(sections)) throw new TypeError('sections is missing: give a list such as [{heading: "Orders", rows: [{…}]}]');
  if (!FORMATS.includes(format)) throw new TypeError(`format has to be one of ${FORMATS.join(', ')}`);
  if (!/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/.test(language)) throw new TypeError('language has to be a tag such as en or de-AT');
  const numbers = formatter(locale);
  const blocks = sections.flatMap((section, i) => blocksOf(section, `sections[${i}]`, numbers));
  const made = {};
  if (format !== 'html') made.markdown = markdown(title, subtitle, blocks);
  if (format !== 'markdown') made.html = html(title, subtitle, blocks, language);
  return made;
}

// formatter returns a function that writes a value of a column as text.
function formatter(locale) {
  const known = new Map();
  const format = (key, options) => {
    if (!known.has(key)) known.set(key, new Intl.NumberFormat(locale, options));
    return known.get(key);
  };
  return (value, column) => {
    if (value === null || value === undefined) return '';
    if (typeof value !== 'number' || column.format === 'text') return typeof value === 'object' ? JSON.stringify(value) : String(value);
    const { digits } = column;
    const range = digits === undefined ? {} : { minimumFractionDigits: digits, maximumFractionDigits: digits };
    switch (column.format) {
      case 'percent': return format(`%${digits}`, { style: 'percent', maximumFractionDigits: 1, ...range }).format(value);
      case 'currency': return format(`c${column.currency}${digits}`, { style: 'currency', currency: column.currency, ...range }).format(value);
      default: return format(`n${digits}`, { maximumFractionDigits: 10, ...range }).format(value);
    }
  };
}

// blocksOf returns the parts of a section: {kind: heading, paragraph, facts, list, table or note, …} with texts that are not escaped yet.
function blocksOf(section, where, write) {
  if (section === null || typeof section !== 'object') throw new TypeError(`${where} is no object: give {heading, text, items, facts, rows}`);
  const unknown = Object.keys(section).find((name) => !PARTS.includes(name));
  if (unknown) throw new TypeError(`${where} has the unknown field ${JSON.stringify(unknown)}; a section has ${PARTS.join(', ')}`);
  const blocks = [];
  const { heading, text, facts, items, ordered, rows } = section;
  for (const [name, value] of [['heading', heading], ['text', text]]) {
    if (value !== undefined && typeof value !== 'string') throw new TypeError(`${where}.${name} has to be a text`);
  }
  if (heading) blocks.push({ kind: 'heading', text: heading });
  for (const paragraph of (text ?? '').split(/\r?\n[ \t]*\r?\n/)) {
    if (paragraph.trim() !== '') blocks.push({ kind: 'paragraph', lines: paragraph.trim().split(/\s*\r?\n\s*/) });
  }
  if (facts !== undefined) {
    if (facts === null || typeof facts !== 'object' || Array.isArray(facts)) throw new TypeError(`${where}.facts has to be an object of names and values`);
    const all = Object.entries(facts).map(([name, value]) => [name, write(value, {})]);
    if (all.length > 0) blocks.push({ kind: 'facts', facts: all });
  }
  if (items !== undefined) {
    if (!Array.isArray(items)) throw new TypeError(`${where}.items has to be a list of texts`);
    if (items.length > 0) blocks.push({ kind: 'list', ordered: ordered === true, items: items.map((item) => write(item, {})) });
  }
  if (rows !== undefined) blocks.push(...tableOf(section, where, write));
  return blocks;
}

function tableOf({ rows, columns, totals = [], maxRows = DEFAULT_ROWS }, where, write) {
  if (!Array.isArray(rows) || rows.some((row) => row === null || typeof row !== 'object')) throw new TypeError(`${where}.rows has to be a list of objects`);
  if (!Number.isInteger(maxRows) || maxRows < 1) throw new TypeError(`${where}.maxRows has to be a whole number above 0`);
  if (!Array.isArray(totals)) throw new TypeError(`${where}.totals has to be a list of names of fields`);
  const all = columns === undefined ? fieldsOf(rows).map((field) => ({ field })) : columns;
  if (!Array.isArray(all) || all.length > MAX_COLUMNS) throw new TypeError(`${where}.columns has to be a list of at most ${MAX_COLUMNS} columns; choose some with columns`);
  if (all.length === 0 || rows.length === 0) return [{ kind: 'note', text: 'No rows.' }];
  const table = all.map((given, i) => {
    const column = typeof given === 'string' ? { field: given } : given;
    if (typeof column?.field !== 'string') throw new TypeError(`${where}.columns[${i}] needs a field`);
    if (column.format !== undefined && !COLUMN_FORMATS.includes(column.format)) throw new TypeError(`${where}.columns[${i}].format has to be one of ${COLUMN_FORMATS.join(', ')}`);
    if (column.format === 'currency' && !/^[A-Z]{3}$/.test(column.currency ?? '')) throw new TypeError(`${where}.columns[${i}].currency is missing: give a code such as EUR`);
    if (column.digits !== undefined && !(Number.isInteger(column.digits) && column.digits >= 0 && column.digits <= 20)) throw new TypeError(`${where}.columns[${i}].digits has to be a whole number from 0 to 20`);
    return column;
  });
  const read = (row, { field }) => (Object.hasOwn(row, field) ? row[field] : null);
  const shown = rows.slice(0, maxRows);
  const cells = shown.map((row) => table.map((column) => write(read(row, column), column)));
  const right = table.map((column) => column.format !== 'text' && shown.some((row) => typeof read(row, column) === 'number') &&
    shown.every((row) => typeof (read(row, column) ?? 0) === 'number'));
  const missing = totals.find((name) => !table.some(({ field }) => field === name));
  if (missing !== undefined) throw new TypeError(`${where}.totals names ${JSON.stringify(missing)}, which is no column`);
  let total = null;
  if (totals.length > 0) {
    total = table.map((column) => (totals.includes(column.field) ? write(sum(rows.map((row) => read(row, column))), column) : ''));
    const free = total.indexOf('');
    if (free >= 0 && !totals.includes(table[free].field)) total[free] = 'Total';
  }
  const blocks = [{ kind: 'table', head: table.map(({ field, label }) => label ?? field), right, cells, total }];
  if (rows.length > shown.length) blocks.push({ kind: 'note', text: `${shown.length} of ${rows.length} rows are shown.` });
  return blocks;
}

function fieldsOf(rows) {
  const fields = new Set();
  for (const row of rows) {
    for (const name of Object.keys(row)) fields.add(name);
    if (fields.size > MAX_COLUMNS) break;
  }
  return [...fields];
}

// sum adds the numbers of a list and gives the sum as many decimals as they have; null if there is none.
function sum(values) {
  const numbers = values.filter((value) => typeof value === 'number');
  if (numbers.length === 0) return null;
  let total = 0;
  let correction = 0;
  let digits = 0;
  for (const n of numbers) {
    const next = total + n;
    correction += Math.abs(total) >= Math.abs(n) ? total - next + n : n - next + total;
    total = next;
    if (!Number.isInteger(n)) digits = Math.max(digits, (String(n).split('e')[0].split('.')[1] ?? '').length);
  }
  total += correction;
  return digits > 0 && digits <= 10 && Math.abs(total) < 1e12 ? Number(total.toFixed(digits)) : total;
}

// ---- Markdown

const TOKEN = /(\[[A-Z][A-Z0-9_]*_\d+\])/;

// md escapes a text for the inside of a line of Markdown. Tokens of personal data stay as they are: the harness puts values in their place.
function md(text) {
  const parts = oneLine(text).split(TOKEN);
  return parts.map((part, i) => (i % 2 ? part : part
    .replace(/[\\`*[\]<>|~&!$]/g, '\\$&')
    .replace(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_'))).join('');
}

// line escapes a text that begins a line, where some marks mean a heading or a list.
function line(text) {
  return md(text.trim()).replace(/^([#+\-=:])/, '\\$1').replace(/^(\d{1,9})([.)])(?=\s|$)/, '$1\\$2');
}

const oneLine = (text) => text.replace(/\s*[\r\n\u2028\u2029]+\s*/g, ' ').replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, '');

function markdown(title, subtitle, blocks) {
  const lines = [`# ${md(title)}`, ''];
  if (subtitle) lines.push(md(subtitle), '');
  for (const block of blocks) {
    switch (block.kind) {
      case 'heading': lines.push(`## ${md(block.text)}`); break;
      case 'paragraph': lines.push(block.lines.map(line).join('  \n')); break;
      case 'note': lines.push(`*${md(block.text)}*`); break;
      case 'facts': lines.push(block.facts.map(([name, value]) => `- **${md(name)}**: ${md(value)}`).join('\n')); break;
      case 'list': lines.push(block.items.map((item, i) => `${block.ordered ? `${i + 1}.` : '-'} ${line(item)}`).join('\n')); break;
      default: {
        const row = (cells) => `| ${cells.join(' | ')} |`;
        lines.push(row(block.head.map(md)), row(block.right.map((right) => (right ? '---:' : '---'))));
        for (const cells of block.cells) lines.push(row(cells.map(md)));
        if (block.total) lines.push(row(block.total.map((cell) => (cell === '' ? '' : `**${md(cell)}**`))));
      }
    }
    lines.push('');
  }
  return lines.join('\n');
}

// ---- HTML

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escape(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, '').replace(/[&<>"']/g, (c) => ENTITIES[c]);
}

const STYLE = 'body{font-family:system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;line-height:1.5}' +
  'table{border-collapse:collapse;margin:1rem 0}th,td{border:1px solid #ccc;padding:.3rem .6rem;text-align:left;vertical-align:top}' +
  'th{background:#f3f3f3}.n{text-align:right;font-variant-numeric:tabular-nums}tfoot{font-weight:bold}dt{font-weight:bold}.note{color:#555}';

function html(title, subtitle, blocks, language) {
  const lines = [
    '<!DOCTYPE html>', `<html lang="${language}">`, '<head>', '<meta charset="utf-8">',
    // The page may load nothing, so that no text can make it.
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">', `<title>${escape(title)}</title>`, `<style>${STYLE}</style>`, '</head>', '<body>',
    `<h1>${escape(title)}</h1>`,
  ];
  if (subtitle) lines.push(`<p class="note">${escape(subtitle)}</p>`);
  for (const block of blocks) {
    switch (block.kind) {
      case 'heading': lines.push(`<h2>${escape(block.text)}</h2>`); break;
      case 'paragraph': lines.push(`<p>${block.lines.map(escape).join('<br>')}</p>`); break;
      case 'note': lines.push(`<p class="note">${escape(block.text)}</p>`); break;
      case 'facts': lines.push(`<dl>${block.facts.map(([name, value]) => `<dt>${escape(name)}</dt><dd>${escape(value)}</dd>`).join('')}</dl>`); break;
      case 'list': {
        const tag = block.ordered ? 'ol' : 'ul';
        lines.push(`<${tag}>${block.items.map((item) => `<li>${escape(item)}</li>`).join('')}</${tag}>`);
        break;
      }
      default: {
        const cells = (tag, texts) => `<tr>${texts.map((text, i) => `<${tag}${block.right[i] ? ' class="n"' : ''}>${escape(text)}</${tag}>`).join('')}</tr>`;
        lines.push('<table>', `<thead>${cells('th', block.head)}</thead>`, '<tbody>');
        for (const texts of block.cells) lines.push(cells('td', texts));
        lines.push('</tbody>');
        if (block.total) lines.push(`<tfoot>${cells('td', block.total)}</tfoot>`);
        lines.push('</table>');
      }
    }
  }
  lines.push('</body>', '</html>', '');
  return lines.join('\n');
}
