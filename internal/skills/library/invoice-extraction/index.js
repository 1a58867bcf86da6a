/**
 * Skill: invoice-extraction
 * Purpose: Takes the fields of an invoice from its text, checks its sums, and says what it did not find.
 * Version: 1.0
 * Usage: import extract from '/skills/invoice-extraction/index.js'; const {invoice, missing, checks} = await extract({text})
 */

const MAX_LINES = 5000;
const MAX_LINE = 1000; // characters of a line that are looked at

const TOKEN = /\[[A-Z][A-Z0-9_]*_\d+\]/;
const TOKENS = new RegExp(TOKEN, 'g');
const GAP = / {0,2}\| {0,2}| {0,2}\t+ {0,2}| {2}/; // what separates columns; longer runs of spaces are cut to two

export default async function extract(input) {
  const { text, rows, options } = checked(input);
  const problems = [];
  const lines = text.split(/\r?\n|\r/).map((line) => line.slice(0, MAX_LINE).trim().replace(/ {3,}/g, '  '));
  if (lines.length > MAX_LINES) throw new RangeError(`the text has ${lines.length} lines, more than ${MAX_LINES}: give one invoice at a time`);
  options.decimal ??= decimalOf(text);

  const invoice = {};
  for (const [field, patterns] of Object.entries(TEXTS)) invoice[field] = labelled(lines, patterns, identifier);
  for (const [field, patterns] of Object.entries(DATES)) {
    invoice[field] = labelled(lines, patterns, (value) => dateOf(value, options, problems, field));
  }
  invoice.iban ??= ibanOf(text);

  const table = rows === undefined ? tableOf(lines, options) : { lines: linesOf(rows, options), end: 0 };
  Object.assign(invoice, totalsOf(lines.slice(table.end), options, problems));
  invoice.currency = currencyOf(lines, problems);
  invoice.lines = table.lines;

  const missing = ['number', 'date', 'currency', 'net', 'tax', 'gross'].filter((field) => invoice[field] === null);
  if (invoice.lines.length === 0) missing.push('lines');
  return { invoice, missing, checks: checksOf(invoice), problems: [...new Set(problems)] };
}

function checked(input) {
  const { text, rows, decimal, dates, year } = input ?? {};
  if (typeof text !== 'string') throw new TypeError('text is missing: give the text of an invoice with its line breaks');
  if (rows !== undefined && (!Array.isArray(rows) || rows.some((row) => row === null || typeof row !== 'object'))) throw new TypeError('rows has to be a list of objects, one for each line of the invoice');
  if (decimal !== undefined && decimal !== '.' && decimal !== ',') throw new TypeError('decimal has to be "." or ","');
  if (dates !== undefined && dates !== 'dmy' && dates !== 'mdy') throw new TypeError('dates has to be "dmy" or "mdy"');
  if (year !== undefined && !Number.isInteger(year)) throw new TypeError('year has to be a year such as 2024');
  return { text: text.replace(/^\ufeff/, '').normalize('NFC').replace(/[\u00a0\u202f]/g, ' '), rows, options: { decimal, dates, year } };
}

// ---- Labels. Each list is in the order of trust.

const label = (words, start = '(?<![\\p{L}\\p{N}])') => new RegExp(`${start}(?:${words})(?![\\p{L}])`, 'iu');
const CELL = '(?<=^|[\\t|] ?|  )'; // the label begins a column

const TEXTS = {
  number: [
    label('(?:invoice|bill) ?(?:no|number|num|nr|id)\\.?|invoice ?#|rechnungs?[- ]?(?:nr|nummer|no)\\.?|beleg[- ]?(?:nr|nummer)\\.?|num[ée]ro de (?:la )?facture|facture ?n[°ºo]?\\.?|n(?:[°º]|o\\.|[úu]mero) (?:de )?factura|factura ?n[°ºo]?\\.?'),
    label('invoice|rechnung|facture|factura', CELL),
  ],
  orderNumber: [label('(?:purchase )?order ?(?:no|number|nr|#)\\.?|po ?(?:no|number|#)\\.?|bestell[- ]?(?:nr|nummer)\\.?|auftrags?[- ]?(?:nr|nummer)\\.?|num[ée]ro de commande|n[°º] de commande|n[°ºu]m?(?:ero)? de pedido')],
  customerNumber: [label('customer ?(?:no|number|id|nr|#)\\.?|kunden[- ]?(?:nr|nummer)\\.?|num[ée]ro (?:de )?client|n[°º] (?:de )?client[e]?')],
  vatId: [label('vat ?(?:id|no|number|reg(?:istration)?(?: no)?)\\.?|ust[.-]? ?id(?:ent)?(?:[.-]? ?nr\\.?)?|umsatzsteuer-?id(?:entifikationsnummer)?|n[°º]? ?(?:de )?tva(?: intracommunautaire)?|nif|cif')],
  iban: [label('iban')],
};

const DATES = {
  date: [
    label("(?:invoice|issue|billing) date|date of (?:issue|invoice)|issued(?: on)?|rechnungs[- ]?datum|beleg[- ]?datum|ausstellungsdatum|date de (?:la )?facture|date d['’]émission|fecha de (?:la )?(?:factura|emisión)"),
    label('date|dated|datum|fecha|du|vom|rechnung vom', CELL),
  ],
  dueDate: [label("due date|date due|payment due(?: date)?|due(?: by| on)?|pay(?:able)? by|fällig(?:keit)?(?:sdatum| am)?|zahlbar bis(?: zum)?|zahlungsziel|(?:date d['’])?échéance|(?:fecha de )?vencimiento")],
  deliveryDate: [label('(?:delivery|service|shipping) date|date of (?:delivery|service)|liefer[- ]?datum|leistungs[- ]?(?:datum|zeitpunkt)|date de livraison|fecha de entrega')],
};

// labelled returns what read makes of the value behind the first label that has one: beside the label, or below it.
function labelled(lines, patterns, read) {
  for (const pattern of patterns) {
    for (let i = 0; i < lines.length; i++) {
      const m = pattern.exec(lines[i]);
      if (!m) continue;
      const before = lines[i].slice(0, m.index + m[0].length);
      const beside = lines[i].slice(before.length).replace(/^[\s:#.|–-]+/, '');
      const value = read(beside.split(GAP)[0]);
      if (value !== null) return value;
      const next = lines.slice(i + 1, i + 3).find((line) => line.trim() !== '');
      if (next === undefined) continue;
      const cells = next.trim().split(GAP);
      const column = before.trim().split(GAP).length - 1;
      const below = read(cells[column] ?? cells[0]);
      if (below !== null) return below;
    }
  }
  return null;
}

// identifier reads a number such as 2024/117, RE-4711 or a token.
function identifier(text) {
  const token = TOKEN.exec(text);
  if (token && token.index === 0) return token[0];
  const iban = /^[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}/.exec(text);
  if (iban) return iban[0].replaceAll(' ', '');
  const m = /^[\p{L}\p{N}][\p{L}\p{N}_./-]*/u.exec(text);
  return m && /\d/.test(m[0]) && DATE.exec(text)?.index !== 0 ? m[0].replace(/[.,]$/, '') : null;
}

function ibanOf(text) {
  const m = /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/.exec(text);
  return m ? m[0].replaceAll(' ', '') : null;
}

// ---- Dates

const MONTHS = [
  'jan|ene', 'feb|fév|fev', 'mar|mär|mrz', 'apr|avr|abr', 'may|mai', 'jun|juin', 'jul|juil', 'aug|aoû|aou|ago', 'sep', 'oct|okt', 'nov', 'dec|dez|déc|dic',
].map((words) => new RegExp(`^(?:${words})`, 'i'));
const DATE = /(\d{4})-(\d{2})-(\d{2})|(\d{1,2})([./-])(\d{1,2})\5(\d{4}|\d{2}(?!\d))?|(\d{1,2})(?:\.|st|nd|rd|th)?\s(?:de\s)?(\p{L}{3,10})\.?,?\s(?:de\s)?(\d{4})|(\p{L}{3,10})\.?\s(\d{1,2})(?:st|nd|rd|th)?,?\s(\d{4})/u;
const DATES_OF_TEXT = new RegExp(DATE, 'gu');
const LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function dateOf(text, { dates, year }, problems, field) {
  const m = DATE.exec(text);
  if (!m || m.index > 15) {
    if (TOKEN.exec(text)?.index === 0) problems.push(`${field} is a token of personal data, which cannot be read`);
    return null;
  }
  let y;
  let month;
  let day;
  if (m[1]) [y, month, day] = [Number(m[1]), Number(m[2]), Number(m[3])];
  else if (m[4]) {
    const [a, b] = [Number(m[4]), Number(m[6])];
    if (m[7] === undefined) {
      if (m[5] !== '.') return null;
      if (year === undefined) {
        problems.push(`${field} ${JSON.stringify(m[0])} has no year: give year`);
        return null;
      }
      y = year;
    } else y = Number(m[7]) + (m[7].length === 2 ? 2000 : 0);
    let order = m[5] === '.' ? 'dmy' : dates;
    if (order === undefined) {
      if (a <= 12 && b <= 12 && a !== b) {
        problems.push(`${field} ${JSON.stringify(m[0])} can be read in two ways: give dates, "dmy" or "mdy"`);
        return null;
      }
      order = b > 12 ? 'mdy' : 'dmy';
    }
    [day, month] = order === 'dmy' ? [a, b] : [b, a];
  } else {
    month = MONTHS.findIndex((name) => name.test(m[9] ?? m[11])) + 1;
    day = Number(m[8] ?? m[12]);
    y = Number(m[10] ?? m[13]);
  }
  const leap = y % 400 === 0 || (y % 4 === 0 && y % 100 !== 0);
  if (month < 1 || month > 12 || day < 1 || day > (month === 2 && leap ? 29 : LENGTHS[month - 1])) return null;
  return `${String(y).padStart(4, '0')}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}`;
}

// ---- Amounts

// decimalOf returns the sign before the last two digits of most numbers.
function decimalOf(text) {
  const votes = { '.': 0, ',': 0 };
  for (const [, sign] of text.replace(DATES_OF_TEXT, ' ').matchAll(/\d([.,])\d{2}(?![\d.,]\d|\d)/g)) votes[sign]++;
  return votes[','] > votes['.'] ? ',' : '.';
}

const AMOUNT = /(?<![\p{L}\p{N}.,])[-+−]?\s?(?:[€$£¥]\s?)?[-−]?(?:\d{1,3}(?:[.,'’ ]\d{3})+(?!\d)(?:[.,]\d{1,4})?|\d+(?:[.,]\d{1,6})?|[.,]\d{1,4})(?![\p{L}\p{N}]|[.,]\d)(\s?%)?/gu;

// amountsOf returns the numbers of a text that are no percentages, in their order.
function amountsOf(text, decimal) {
  const found = [];
  for (const m of text.replace(TOKENS, ' ').replace(DATES_OF_TEXT, ' ').matchAll(AMOUNT)) {
    if (m[1]) continue;
    const value = numberOf(m[0], decimal);
    if (value !== null) found.push(value);
  }
  return found;
}

function numberOf(text, decimal) {
  if (typeof text === 'number') return Number.isFinite(text) ? text : null;
  if (typeof text !== 'string') return null;
  const core = text.replace(/[€$£¥\s'’]|[A-Z]{3}/g, '').replace('−', '-');
  const m = /^([-+]?)([\d.,]+)([-+]?)$/.exec(core);
  if (!m) return null;
  const other = decimal === '.' ? ',' : '.';
  const plain = m[2].replaceAll(other, '').replace(decimal, '.');
  const value = /^\d*\.?\d*$/.test(plain) && /\d/.test(plain) ? Number(plain) : NaN;
  if (!Number.isFinite(value)) return null;
  return (m[1] === '-' || m[3] === '-') && value !== 0 ? -value : value;
}

const rateOf = (text) => {
  const m = /(\d{1,2}(?:[.,]\d{1,2})?)\s?%/.exec(text);
  return m ? Number(m[1].replace(',', '.')) : null;
};

const VAT_ID = label('vat ?(?:id|no|number|reg)|ust[.-]? ?id|umsatzsteuer-?id|steuer-?(?:nr|nummer)|tax (?:id|no|number)|tva intra');
const TAX_WORDS = "vat|(?:sales )?tax(?:es)?|gst|mwst|ust|umsatzsteuer|mehrwertsteuer|tva|iva";
const TAX_SUM = label(`(?:total|sum|summe|gesamt) (?:${TAX_WORDS})`);
const TAX = label(TAX_WORDS);
const TOTAL_WORD = /total|amount|betrag|summe|gesamt|montant|importe|brutto|gross|zu zahlen/i;
const WITH_TAX = label('incl(?:uding|\\.|usive)?|inkl(?:usive|\\.)?|ttc|brutto(?:betrag|summe)?|gross|con iva');
const NET = label('sub-?total|subtotal|net(?: total| amount)?|total (?:net|ht)|netto(?:betrag|summe)?|(?:zwischen)summe(?: netto)?|zwischensumme|excl(?:uding|\\.)?|exkl(?:usive|\\.)?|montant ht|base imponible|(?:gesamt|summe) netto');
const NET_SUM = label('summe', CELL);
const DUE = label('(?:amount|balance|total) due|noch zu zahlen|offener betrag|restbetrag|reste à payer|net à payer|pendiente');
const GROSS = label('grand total|total amount|invoice (?:total|amount)|gesamt(?:betrag|summe)|rechnungs(?:betrag|summe)|end(?:betrag|summe)|zu zahlen(?:der betrag)?|zahlbetrag|total ttc|total à payer|montant total|importe total|total (?:a pagar|factura)');
const TOTAL = label('total|gesamt|summe', CELL);
const EXTRA = label('shipping(?: costs?)?|freight|postage|handling|discount|versand(?:kosten)?|fracht|porto|rabatt|nachlass|skonto|frais de port|livraison|remise|gastos de envío|envío|descuento');

// totalsOf reads the lines below the table. Each line is one kind of total at most.
function totalsOf(lines, { decimal }, problems) {
  const found = { net: null, taxes: [], gross: null, amountDue: null, extras: [] };
  let taxSum = null;
  let total = null; // of a line that says "total" only; the last one is the invoice's
  lines.forEach((line, i) => {
    if (line.trim() === '' || VAT_ID.test(line)) return;
    const kind = kindOf(line);
    if (kind === null) return;
    let amounts = amountsOf(line, decimal);
    if (amounts.length === 0 && rateOf(line) === null && line.trim().split(GAP).length === 1) amounts = /^\s*[-€$£\d]/.test(lines[i + 1] ?? '') ? amountsOf(lines[i + 1], decimal) : [];
    if (amounts.length === 0) {
      if (TOKEN.test(line)) problems.push(`the amount of ${JSON.stringify(line.trim().slice(0, 60))} is a token, which cannot be read`);
      return;
    }
    const amount = amounts.at(-1);
    if (kind === 'tax') found.taxes.push({ rate: rateOf(line), amount });
    else if (kind === 'taxSum') taxSum = amount;
    else if (kind === 'extra') found.extras.push({ label: line.trim().split(GAP)[0].replace(/[\s:]*[-€$£\d.,]*$/, ''), amount });
    else if (kind === 'total') total = amount;
    else found[kind] ??= amount;
  });
  found.gross ??= total ?? found.amountDue;
  const tax = found.taxes.length > 0 ? cents(found.taxes.reduce((sum, { amount }) => sum + amount, 0)) : taxSum;
  return { net: found.net, taxes: found.taxes, tax, gross: found.gross, amountDue: found.amountDue, extras: found.extras };
}

function kindOf(line) {
  if (TAX_SUM.test(line)) return 'taxSum';
  if (DUE.test(line)) return 'amountDue';
  if (WITH_TAX.test(line) && TOTAL_WORD.test(line)) return 'gross';
  if (NET.test(line) && !NET_SUM.test(line)) return 'net';
  if (GROSS.test(line)) return 'gross';
  if (TAX.test(line)) return 'tax';
  if (EXTRA.test(line)) return 'extra';
  return TOTAL.test(line) ? 'total' : null;
}

const SIGNS = { '€': 'EUR', $: 'USD', '£': 'GBP', '¥': 'JPY' };
const CODES = /(?<![\p{L}])(EUR|USD|GBP|CHF|JPY|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|TRY|CNY|INR|BRL|MXN|ZAR|SGD|HKD|KRW|AED)(?![\p{L}])/gu;

function currencyOf(lines, problems) {
  const counts = new Map();
  const signs = new Set();
  for (const line of lines) {
    const weight = TOTAL_WORD.test(line) ? 3 : 1; // a total says it best
    for (const [, code] of line.matchAll(CODES)) counts.set(code, (counts.get(code) ?? 0) + weight);
    for (const [sign] of line.matchAll(/[€$£¥]/g)) {
      signs.add(sign);
      counts.set(SIGNS[sign], (counts.get(SIGNS[sign]) ?? 0) + weight);
    }
  }
  // A dollar sign beside the code of another dollar is that dollar's.
  const dollar = ['CAD', 'AUD', 'NZD', 'SGD', 'HKD', 'MXN'].find((code) => counts.has(code));
  if (dollar && signs.has('$')) counts.delete('USD');
  const all = [...counts].sort((a, b) => b[1] - a[1]);
  if (all.length === 0) return null;
  const [[currency]] = all;
  if (all.length > 1) problems.push(`the text names several currencies: ${all.map(([code]) => code).join(', ')}; ${currency} was taken`);
  else if (signs.size === 1 && (signs.has('$') || signs.has('¥')) && !lines.some((line) => line.includes(currency))) problems.push(`the sign ${[...signs][0]} was taken as ${currency}`);
  return currency;
}

// ---- Lines

const COLUMNS = [
  ['position', /^(?:pos(?:ition)?|#|no|nr|lfd)\.?(?: ?nr)?\.?$/i],
  ['quantity', /^(?:qty|quantity|menge|anzahl|stück|quantité|qté|cantidad|hours|stunden|std)\.?$/i],
  ['unitPrice', /^(?:unit ?price|unit ?cost|price(?: per unit)?|rate|einzel ?preis|e-?preis|preis(?: ?\/ ?\p{L}+)?|stückpreis|prix(?: unitaire)?|p\.?u\.?|precio(?: unitario)?)(?: ?[([].*)?$/iu],
  ['taxRate', /^(?:vat|tax|mwst|ust|tva|iva|steuer)\.?(?: ?rate| ?%|-?satz)?\.?$/i],
  ['amount', /^(?:(?:line )?(?:amount|total)|betrag|gesamt(?:preis|betrag)?|summe|netto|montant(?: ht)?|total ht|importe)(?: ?[([].*)?$/i],
  ['unit', /^(?:unit|einheit|me|unité|unidad)\.?$/i],
  ['description', /^(?:description|item|article|product|service|bezeichnung|beschreibung|artikel|leistung|produkt|text|désignation|descripción|concepto)s?\.?$/i],
];

const columnOf = (name) => COLUMNS.find(([, pattern]) => pattern.test(name.trim()))?.[0] ?? null;

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, '').trim().split(line.includes('|') ? /\s*\|\s*/ : line.includes('\t') ? /\t/ : /\s{2,}/).map((cell) => cell.trim());

// tableOf finds the lines of the invoice in its text: {lines, end: the line after the table}.
function tableOf(lines, { decimal }) {
  const head = lines.findIndex((line) => {
    const columns = cellsOf(line).map(columnOf);
    return columns.includes('amount') && new Set(columns.filter((column) => column !== null)).size >= 2 && amountsOf(line, decimal).length === 0;
  });
  if (head < 0) return { lines: [], end: 0 };
  const columns = cellsOf(lines[head]).map(columnOf);
  const items = [];
  let end = lines.length;
  for (let i = head + 1; i < lines.length; i++) {
    const line = lines[i];
    if (line.trim() === '' || /^[\s|:+=_-]+$/.test(line)) continue;
    const cells = cellsOf(line);
    const item = cells.length > 1 ? itemOf(cells, columns, decimal) : null;
    const looksTotal = kindOf(line) !== null && (item === null || item.quantity === null);
    if (looksTotal) {
      end = i;
      break;
    }
    if (item) items.push(item);
    else if (items.length > 0 && cells.length === 1 && lines[i - 1].trim() !== '') items.at(-1).description = [items.at(-1).description, cells[0]].filter(Boolean).join(' ');
    else if (items.length > 0) {
      end = i;
      break;
    }
  }
  return { lines: items, end };
}

// itemOf makes a line of cells, or returns null if they have no amount.
function itemOf(cells, columns, decimal) {
  const values = new Map();
  if (cells.length === columns.length) columns.forEach((column, i) => column && !values.has(column) && values.set(column, cells[i]));
  else {
    // Cells are missing: those with numbers belong to the last columns, in their order.
    const rest = [...cells];
    const numeric = columns.filter((column) => column === 'quantity' || column === 'unitPrice' || column === 'amount');
    while (rest.length > 1 && numeric.length > 0 && numberOf(rest.at(-1), decimal) !== null) values.set(numeric.pop(), rest.pop());
    if (columns[0] === 'position' && rest.length > 1 && /^\d+\.?$/.test(rest[0])) rest.shift();
    values.set('description', rest.join(' '));
  }
  return item((column) => values.get(column), decimal);
}

function item(read, decimal) {
  const amount = numberOf(read('amount'), decimal);
  if (amount === null) return null;
  const quantityText = read('quantity');
  const m = typeof quantityText === 'string' ? /^([-\d.,'’ ]+?)\s*([\p{L}²³.]+)?$/u.exec(quantityText) : null;
  const rate = read('taxRate');
  return {
    description: read('description') === undefined ? null : String(read('description')),
    quantity: m ? numberOf(m[1], decimal) : numberOf(quantityText, decimal),
    unit: read('unit') ?? m?.[2] ?? null,
    unitPrice: numberOf(read('unitPrice'), decimal),
    taxRate: typeof rate === 'number' ? rate : typeof rate === 'string' ? (rateOf(rate) ?? numberOf(rate, decimal)) : null,
    amount,
  };
}

function linesOf(rows, { decimal }) {
  return rows.map((row, i) => {
    const fields = new Map();
    for (const name of Object.keys(row)) {
      const column = Object.hasOwn(KEYS, name) ? KEYS[name] : columnOf(name);
      if (column && !fields.has(column)) fields.set(column, name);
    }
    const found = item((column) => (fields.has(column) ? (row[fields.get(column)] ?? undefined) : undefined), decimal);
    if (found === null) throw new TypeError(`rows[${i}] has no amount: give it in a field called amount`);
    return found;
  });
}

const KEYS = { __proto__: null, unitPrice: 'unitPrice', unit_price: 'unitPrice', taxRate: 'taxRate', tax_rate: 'taxRate', lineTotal: 'amount', line_total: 'amount' };

// ---- Checks

const cents = (n) => Math.round(Number(`${Number(n.toPrecision(15))}e2`)) / 100;

function checksOf({ lines, extras, net, taxes, tax, gross, date, dueDate }) {
  const checks = [];
  const equal = (check, expected, found, tolerance) => checks.push({ check, ok: Math.abs(expected - found) <= tolerance + 1e-9, expected: cents(expected), found: cents(found) });
  lines.forEach(({ quantity, unitPrice, amount }, i) => {
    if (quantity !== null && unitPrice !== null) equal(`line ${i + 1}: quantity × unitPrice = amount`, quantity * unitPrice, amount, 0.01);
  });
  const ofLines = lines.reduce((total, { amount }) => total + amount, 0);
  const extra = extras.reduce((total, { amount }) => total + amount, 0);
  const near = (x, y) => y !== null && Math.abs(x - y) <= 0.01 + 1e-9;
  // Shipping and discounts stand above the net amount, or between it and the tax.
  const below = net !== null && extras.length > 0 && (lines.length > 0 ? near(ofLines, net) : !near(net + (tax ?? 0), gross) && near(net + extra + (tax ?? 0), gross));
  if (lines.length > 0 && (net !== null || gross !== null)) {
    const sum = below ? ofLines : ofLines + extra;
    const withTax = net === null || (!near(sum, net) && near(sum, gross)); // some invoices have lines with tax
    equal(`${below ? 'lines' : 'lines + extras'} = ${withTax ? 'gross' : 'net'}`, sum, withTax ? gross : net, 0.01);
  }
  const base = net === null ? null : net + (below ? extra : 0);
  if (base !== null && tax !== null && gross !== null) equal(below ? 'net + extras + tax = gross' : 'net + tax = gross', base + tax, gross, 0.01);
  if (base !== null && taxes.length === 1 && taxes[0].rate !== null) equal(below ? '(net + extras) × rate = tax' : 'net × rate = tax', (base * taxes[0].rate) / 100, tax, 0.02);
  if (date !== null && dueDate !== null) checks.push({ check: 'dueDate ≥ date', ok: dueDate >= date, expected: date, found: dueDate });
  return checks;
}
