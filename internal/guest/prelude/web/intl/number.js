// Intl.NumberFormat: its options. The formatting is in numberparts.js.
import { create, indexOf, max, min, strIndexOf, toStr, toUpperCase } from '../../intrinsics.js';
import { test } from '../../text.js';
import { absent, choice, numberingOf, objectOf, plain, resolve, service, whole } from './locale.js';
import { numberParts, unitForms, currencyNames } from './numberparts.js';

const ZERO = ' BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF ';
const THREE = ' BHD IQD JOD KWD LYD OMR TND ';
const currencyDigits = (code) => (strIndexOf(ZERO, ` ${code} `) >= 0 ? 0 : strIndexOf(THREE, ` ${code} `) >= 0 ? 3 : 2);

const MODES = ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfExpand', 'halfTrunc', 'halfEven'];

// readDigits resolves the digit options; those of significant digits win over those of fractions.
function readDigits(options, low, high, compact) {
  const d = { minimumIntegerDigits: whole(options, 'minimumIntegerDigits', 1, 21, 1) };
  d.roundingMode = choice(options, 'roundingMode', MODES, 'halfExpand');
  d.trailingZeroDisplay = choice(options, 'trailingZeroDisplay', ['auto', 'stripIfInteger'], 'auto');
  const sig = options?.minimumSignificantDigits !== undefined || options?.maximumSignificantDigits !== undefined;
  const frac = options?.minimumFractionDigits !== undefined || options?.maximumFractionDigits !== undefined;
  if (sig) {
    d.minimumSignificantDigits = whole(options, 'minimumSignificantDigits', 1, 21, 1);
    d.maximumSignificantDigits = whole(options, 'maximumSignificantDigits', d.minimumSignificantDigits, 21, 21);
  } else if (compact && !frac) {
    d.compactRounding = true;
    d.minimumFractionDigits = d.maximumFractionDigits = 0;
    d.minimumSignificantDigits = 1;
    d.maximumSignificantDigits = 2;
  } else {
    let from = whole(options, 'minimumFractionDigits', 0, 100, undefined);
    let to = whole(options, 'maximumFractionDigits', 0, 100, undefined);
    if (from === undefined) from = min(low, to ?? low);
    else if (to === undefined) to = max(high, from);
    else if (from > to) throw new RangeError('maximumFractionDigits value is out of range.');
    d.minimumFractionDigits = from;
    d.maximumFractionDigits = to ?? max(high, from);
  }
  return d;
}

const INCREMENTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];

function increment(options, digits) {
  const n = options?.roundingIncrement === undefined ? 1 : whole(options, 'roundingIncrement', 1, 5000, 1);
  if (indexOf(INCREMENTS, n) < 0) throw new RangeError('roundingIncrement value is out of range.');
  if (n === 1) return n;
  if (digits.maximumSignificantDigits !== undefined) throw new TypeError('roundingIncrement goes with digits of fractions only');
  if (options.minimumFractionDigits === undefined) digits.minimumFractionDigits = digits.maximumFractionDigits;
  if (digits.minimumFractionDigits !== digits.maximumFractionDigits) {
    throw new RangeError('With roundingIncrement, minimumFractionDigits and maximumFractionDigits must be the same');
  }
  return n;
}

class NumberFormat {
  #locale;
  #o;
  #bound;

  constructor(locales, options) {
    options = objectOf(options);
    const locale = (this.#locale = resolve(locales, options));
    const o = (this.#o = create(null));
    o.style = choice(options, 'style', ['decimal', 'percent', 'currency', 'unit'], 'decimal');
    o.currency = choice(options, 'currency');
    if (o.currency !== undefined && !test(/^[A-Za-z]{3}$/, o.currency)) {
      throw new RangeError(`Invalid currency code : ${o.currency}`);
    }
    if (o.style === 'currency') {
      if (o.currency === undefined) throw new TypeError('Currency code is required with currency style.');
      o.currency = toUpperCase(o.currency);
    }
    o.currencyDisplay = choice(options, 'currencyDisplay', ['code', 'symbol', 'narrowSymbol', 'name'], 'symbol');
    o.currencySign = choice(options, 'currencySign', ['standard', 'accounting'], 'standard');
    if (o.style === 'currency' && o.currencyDisplay === 'name' && locale.language !== 'en' && currencyNames(locale, o.currency) === undefined) {
      throw new RangeError(`Intl here has no name of the currency ${o.currency} in '${locale.name}': use currencyDisplay 'code' or 'symbol'`);
    }
    o.numberingSystem = numberingOf(locale, options);
    if (o.numberingSystem === 'arab' || o.numberingSystem === 'arabext') {
      throw new RangeError(`Intl here writes dates and no numbers with the numberingSystem '${o.numberingSystem}', whose separators are others`);
    }
    plain('roundingPriority', options, 'auto');
    o.unit = choice(options, 'unit');
    o.unitDisplay = choice(options, 'unitDisplay', ['short', 'narrow', 'long'], 'short');
    if (o.style === 'unit' && o.unit === undefined) throw new TypeError('Unit is required with unit style.');
    if (o.unit !== undefined) unitForms(locale, o.unit, o.unitDisplay);
    o.notation = choice(options, 'notation', ['standard', 'scientific', 'engineering', 'compact'], 'standard');
    const compact = o.notation === 'compact';
    const digits = o.style === 'currency' && o.notation === 'standard' ? currencyDigits(o.currency) : undefined;
    o.digits = readDigits(options, digits ?? 0, digits ?? (o.style === 'percent' ? 0 : 3), compact);
    o.digits.roundingIncrement = increment(options, o.digits);
    o.compactDisplay = choice(options, 'compactDisplay', ['short', 'long'], 'short');
    o.useGrouping = grouping(options?.useGrouping, compact ? 'min2' : 'auto');
    o.signDisplay = choice(options, 'signDisplay', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto');
  }

  get format() {
    return (this.#bound ??= (value) => {
      const parts = numberParts(this.#locale, this.#o, value);
      let out = '';
      for (let i = 0; i < parts.length; i++) out += parts[i].value;
      return out;
    });
  }

  formatToParts(value) {
    return numberParts(this.#locale, this.#o, value);
  }

  formatRange() { return absent('Intl.NumberFormat.prototype.formatRange'); }
  formatRangeToParts() { return absent('Intl.NumberFormat.prototype.formatRangeToParts'); }

  resolvedOptions() {
    const o = this.#o;
    const out = { locale: this.#locale.name, numberingSystem: o.numberingSystem, style: o.style };
    if (o.style === 'currency') {
      out.currency = o.currency;
      out.currencyDisplay = o.currencyDisplay;
      out.currencySign = o.currencySign;
    }
    if (o.style === 'unit') {
      out.unit = o.unit;
      out.unitDisplay = o.unitDisplay;
    }
    const d = o.digits;
    for (let i = 0; i < DIGITS.length; i++) if (d[DIGITS[i]] !== undefined) out[DIGITS[i]] = d[DIGITS[i]];
    out.useGrouping = o.useGrouping;
    out.notation = o.notation;
    if (o.notation === 'compact') out.compactDisplay = o.compactDisplay;
    out.signDisplay = o.signDisplay;
    out.roundingIncrement = d.roundingIncrement;
    out.roundingMode = d.roundingMode;
    out.roundingPriority = d.compactRounding ? 'morePrecision' : 'auto';
    out.trailingZeroDisplay = d.trailingZeroDisplay;
    return out;
  }
}

const DIGITS = ['minimumIntegerDigits', 'minimumFractionDigits', 'maximumFractionDigits', 'minimumSignificantDigits',
  'maximumSignificantDigits'];

function grouping(value, otherwise) {
  if (value === undefined) return otherwise;
  if (value === true || value === 'always') return 'always';
  if (value === false || value === null || value === 0 || value === '') return false;
  if (value === 'true' || value === 'false') return otherwise;
  if (value === 'auto' || value === 'min2') return value;
  throw new RangeError(`Value ${toStr(value)} out of range for Intl.NumberFormat options property useGrouping`);
}

export const IntlNumberFormat = service(NumberFormat, 'NumberFormat', true);
