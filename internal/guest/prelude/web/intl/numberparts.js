// Numbers as ECMA-402's parts: digits, grouping, sign, currency, unit, compact suffix.
import { floor, indexOf, max, push, regExpExec, split, strSlice, toNumber, toStr } from '../../intrinsics.js';
import { replace, test } from '../../text.js';
import { decimalOf, fixed, roundTo, roundToMultiple, shift } from './decimal.js';
import { digitsIn, resolve } from './locale.js';
import { CURRENCIES } from './locales.js';
import { categoryOf, form } from './plural.js';

// find returns the rest of a list's entry that begins with key; undefined where there is none.
function find(list, key) {
  for (let i = 0; i < list.length; i++) if (strSlice(list[i], 0, key.length) === key) return strSlice(list[i], key.length);
  return undefined;
}

const unpadded = (text) => replace(/^[ \u00a0]/g, text, () => '');
const SHORT_PER = { __proto__: null, hour: 'h', second: 's', minute: 'min', day: 'd' };
const SPECIAL_PER = { __proto__: null, 'mile-per-hour': 'mph', 'mile-per-gallon': 'mpg', 'kilometer-per-hour': 'km/h' };

// unitForms returns a unit's suffixes by plural category.
export function unitForms(locale, unit, display) {
  const pair = split(unit, '-per-');
  if (pair.length > 2) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${unit}'`);
  const first = oneUnit(locale, pair[0], display);
  if (pair.length === 1) return first;
  const per = oneUnit(locale, pair[1], display);
  if (locale.language !== 'en') return known(unit, ownUnit(locale, unit, display), locale);
  if (display === 'long') return [`${first[0]} per${per[0]}`, `${first[1] ?? first[0]} per${per[0]}`];
  const special = SPECIAL_PER[unit];
  if (special) return [(display === 'short' ? ' ' : '') + special];
  const tail = `/${SHORT_PER[pair[1]] ?? unpadded(per[0])}`;
  return [first[0] + tail, (first[1] ?? first[0]) + tail];
}

// ownUnit finds a unit's forms in one of its widths, undefined where the locale has none of its own.
function ownUnit(locale, unit, display) {
  const own = find(locale.list('unit'), `${unit}!`);
  return own && split(split(own, '!')[indexOf(['short', 'narrow', 'long'], display)], '~');
}

// known refuses what stands before the number in a locale, and compound units without a form of their own.
function known(unit, forms, locale) {
  if (forms && forms[0] !== '?') return forms;
  throw new RangeError(`Intl here cannot write the unit '${unit}' of this width in '${locale.name}': use unitDisplay 'short' or another locale`);
}

function oneUnit(locale, unit, display) {
  const english = ownUnit(resolve('en-US'), unit, display);
  if (english === undefined) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${unit}'`);
  return known(unit, ownUnit(locale, unit, display) ?? english, locale);
}

// currencyNames returns the forms of a currency's name with what stands between it and the number; undefined where there is none. A locale
// without names of its own has those of its language.
export function currencyNames(locale, currency) {
  if (locale.language === 'en') return undefined;
  const own = find(split(locale.text('money') ?? resolve(locale.language).text('money') ?? '', '|'), currency);
  return own && split(own, '~');
}

let currencies;
function currencyText(locale, o, one) {
  if (o.currencyDisplay === 'code') return o.currency;
  const data = split(find((currencies ??= split(CURRENCIES, '|')), `${o.currency}!`) ?? '', '!');
  if (o.currencyDisplay === 'name') return data[one ? 0 : 1] || o.currency;
  if (o.currencyDisplay === 'narrowSymbol' && data[2]) return data[2];
  return find(locale.list('currency'), o.currency) ?? o.currency;
}

// roundBy rounds a decimal by the digit options.
function roundBy(d, o) {
  if (o.compactRounding) return roundTo(d, max(2, d.point), o.roundingMode);
  if (o.roundingIncrement > 1) return roundToMultiple(d, o.maximumFractionDigits, o.roundingIncrement, o.roundingMode);
  const keep = o.maximumSignificantDigits ?? d.point + o.maximumFractionDigits;
  return roundTo(d, keep, o.roundingMode);
}

// shown returns [integer, fraction] as digits.
function shown(d, o) {
  let least = o.minimumFractionDigits ?? 0;
  if (o.minimumSignificantDigits > 1) least = max(0, o.minimumSignificantDigits - (d.digits === '' ? 1 : d.point));
  const both = fixed(d, o.minimumIntegerDigits, least);
  if (o.trailingZeroDisplay === 'stripIfInteger' && !test(/[1-9]/, both[1])) both[1] = '';
  return both;
}

// scale applies percent and notation: {d, exponent, suffix}, rounded.
function scale(locale, o, d) {
  if (o.style === 'percent') d = shift(d, 2);
  if (o.notation === 'standard') return { d: roundBy(d, o.digits), exponent: 0, suffix: '' };
  // Rounding can reach the next power: 999,999 is 1M. So round, look at the size, and round again.
  let exponent = exponentOf(locale, o, d);
  let out = roundBy(shift(d, -exponent), o.digits);
  const again = exponentOf(locale, o, shift(out, exponent));
  if (again !== exponent) {
    exponent = again;
    out = roundBy(shift(d, -exponent), o.digits);
  }
  return { d: out, exponent };
}

function exponentOf(locale, o, d) {
  if (d.digits === '') return 0;
  const e = d.point - 1;
  if (o.notation === 'scientific') return e;
  if (o.notation === 'engineering') return floor(e / 3) * 3;
  let found = 0;
  const steps = compactSteps(locale, o);
  for (let i = 0; i < steps.length; i++) if (e >= toNumber(steps[i][1])) found = toNumber(steps[i][2] ?? steps[i][1]);
  return found;
}

// compactSteps reads the locale's steps as [, power they begin at, power they divide by, suffixes].
function compactSteps(locale, o) {
  // An amount of money is always short.
  const list = locale.list(o.compactDisplay === 'long' && o.style !== 'currency' ? 'compactLong' : 'compact');
  const out = [];
  for (let i = 0; i < list.length; i++) push(out, regExpExec(/^(\d+)(?:\/(\d+))?([^]*)$/, list[i]));
  return out;
}

function compactSuffix(locale, o, exponent, category) {
  const steps = compactSteps(locale, o);
  for (let i = 0; i < steps.length; i++) {
    if (toNumber(steps[i][2] ?? steps[i][1]) !== exponent) continue;
    return form(split(steps[i][3], '~'), category());
  }
  return '';
}

function groupInto(parts, locale, o, integer) {
  const rules = locale.list('number');
  const least = o.useGrouping === 'always' ? 1 : o.useGrouping === 'min2' ? 2 : toNumber(rules[2] || 1);
  if (o.useGrouping === false || integer.length < 3 + least) {
    push(parts, { type: 'integer', value: integer });
    return;
  }
  const size = toNumber(rules[3] || 3); // of the groups above the thousands
  const groups = [strSlice(integer, -3)];
  for (let end = integer.length - 3; end > 0; end -= size) push(groups, strSlice(integer, max(0, end - size), end));
  for (let i = groups.length - 1; i >= 0; i--) {
    push(parts, { type: 'integer', value: groups[i] });
    if (i > 0) push(parts, { type: 'group', value: (o.style === 'currency' && rules[10]) || rules[1] });
  }
}

// signOf chooses '-', '+' or ''.
function signOf(display, negative, zero) {
  if (display === 'never') return '';
  if (display === 'auto') return negative ? '-' : '';
  if (display === 'negative') return negative && !zero ? '-' : '';
  if (display === 'exceptZero' && zero) return '';
  return negative ? '-' : '+';
}

export function numberParts(locale, o, value) {
  const rules = locale.list('number');
  let d = decimalOf(value);
  const number = [];
  let integer = '0';
  let fraction = '';
  let exponent = 0;
  if (d.special === 'nan') push(number, { type: 'nan', value: 'NaN' });
  else if (d.special === 'infinity') push(number, { type: 'infinity', value: '\u221e' });
  else {
    const scaled = scale(locale, o, d);
    exponent = scaled.exponent;
    d = { ...scaled.d, negative: d.negative };
    const digits = shown(d, o.digits);
    integer = digits[0];
    fraction = digits[1];
    groupInto(number, locale, o, integer);
    if (fraction !== '') push(number, { type: 'decimal', value: (o.style === 'currency' && rules[11]) || rules[0] }, { type: 'fraction', value: fraction });
  }
  const category = () => (d.special === undefined ? categoryOf(locale, integer, fraction) : 'other');
  if (o.notation === 'scientific' || o.notation === 'engineering') {
    if (!d.special) {
      push(number, { type: 'exponentSeparator', value: rules[9] });
      if (exponent < 0) push(number, { type: 'exponentMinusSign', value: rules[4] });
      push(number, { type: 'exponentInteger', value: toStr(exponent < 0 ? -exponent : exponent) });
    }
  } else if (o.notation === 'compact' && exponent > 0) affix(number, compactSuffix(locale, o, exponent, category), 'compact');

  for (let i = 0; i < number.length; i++) {
    if (number[i].type !== 'compact' && number[i].type !== 'literal') number[i].value = digitsIn(o.numberingSystem, number[i].value);
  }
  const sign = signOf(o.signDisplay, d.negative, d.special ? d.special === 'nan' : d.digits === '');
  return wrap(locale, o, rules, sign, number, category, d.special === undefined);
}

// affix adds a suffix; the space before it is a literal.
function affix(parts, text, type) {
  const m = regExpExec(/^([ \u00a0\u202f]*)([^]*)$/, text);
  if (m[1]) push(parts, { type: 'literal', value: m[1] });
  if (m[2]) push(parts, { type, value: m[2] });
}

// wrap puts sign, currency or unit around the number by the locale's pattern.
function wrap(locale, o, rules, sign, number, category, digits) {
  let pattern = '0';
  let currency = '';
  if (o.style === 'currency' && o.currencyDisplay !== 'name') {
    const negative = o.currencySign === 'accounting' ? rules[8] : rules[7];
    pattern = sign === '-' ? negative : sign === '+' ? replace(/[-\u2212]/g, rules[7], () => '+') : rules[6];
    currency = currencyText(locale, o, false);
    // Letters keep a distance from digits.
    if (digits && test(/¤0/, pattern) && test(/[A-Za-z]$/, currency)) {
      pattern = replace(/¤/g, pattern, () => '¤\u00a0');
    }
  } else {
    const percent = o.style === 'percent' && rules[5][0] === '<' ? strSlice(rules[5], 1) : '';
    pattern = (sign === '-' ? rules[4] : sign) + percent + pattern;
  }
  const parts = [];
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === '0') for (let k = 0; k < number.length; k++) push(parts, number[k]);
    else if (c === '¤') push(parts, { type: 'currency', value: currency });
    else if (c === '%') push(parts, { type: 'percentSign', value: c });
    else if (c === '+') push(parts, { type: 'plusSign', value: c });
    else if (c === '-' || c === '\u2212') push(parts, { type: 'minusSign', value: c });
    else push(parts, { type: 'literal', value: c });
  }
  if (o.style === 'percent' && rules[5][0] !== '<') affix(parts, rules[5], 'percentSign');
  else if (o.style === 'unit') affix(parts, form(unitForms(locale, o.unit, o.unitDisplay), category()), 'unit');
  else if (o.style === 'currency' && o.currencyDisplay === 'name') {
    const names = currencyNames(locale, o.currency);
    affix(parts, names ? form(names, category()) : ' ' + currencyText(locale, o, category() === 'one'), 'currency');
  }
  return parts;
}
