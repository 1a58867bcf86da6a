// Decimal numbers as digits: {negative, digits, point}, the value 0.digits * 10^point. A Number becomes the shortest
// decimal that reads back as it, which is what ECMA-402 formats: 1.005 to two places is 1.01.
import { padEnd, padStart, parseInt, regExpExec, repeat, strSlice, toNumber, toStr, trim } from '../../intrinsics.js';

const SHAPE = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i;

// decimalOf reads a Number, BigInt or numeric string; special is 'nan' or 'infinity' where it is no decimal.
export function decimalOf(value) {
  let text;
  if (typeof value === 'bigint') text = toStr(value);
  else {
    if (typeof value === 'object' && value !== null) value = value.valueOf();
    const n = typeof value === 'bigint' ? 0 : toNumber(value);
    if (n !== n) return { special: 'nan', negative: false };
    if (n === Infinity || n === -Infinity) return { special: 'infinity', negative: n < 0 };
    text = typeof value === 'bigint' || typeof value === 'string' ? trim(toStr(value)) : toStr(n);
    if (n === 0 && 1 / n < 0) text = '-0';
    if (!regExpExec(SHAPE, text)) text = toStr(n); // '', '0x10'
  }
  const m = regExpExec(SHAPE, text);
  const digits = m[2] + m[3];
  return trimmed({ negative: m[1] === '-', digits, point: m[2].length + parseInt(m[4] ?? '0', 10) });
}

// trimmed drops zeros at both ends; zero has no digits.
function trimmed(d) {
  const lead = regExpExec(/^0*/, d.digits)[0].length;
  const digits = regExpExec(/^(.*?)0*$/, strSlice(d.digits, lead))[1];
  return { negative: d.negative, digits, point: digits === '' ? 0 : d.point - lead };
}

// shift multiplies by a power of ten.
export const shift = (d, by) => (d.digits === '' ? d : { ...d, point: d.point + by });

// roundTo keeps the first `keep` digits. Modes are those of ECMA-402, half the default.
export function roundTo(d, keep, mode) {
  if (keep >= d.digits.length) return d;
  let { digits, point } = d;
  if (keep < 0) {
    digits = repeat('0', -keep) + digits;
    point -= keep;
    keep = 0;
  }
  const rest = strSlice(digits, keep);
  const odd = keep > 0 && parseInt(digits[keep - 1], 10) % 2 === 1;
  const half = rest[0] > '5' || (rest[0] === '5' && regExpExec(/^50*$/, rest) === null) ? 1 : regExpExec(/^50*$/, rest) ? 0 : -1;
  const up = {
    __proto__: null, ceil: !d.negative, floor: d.negative, expand: true, trunc: false,
    halfCeil: half > 0 || (half === 0 && !d.negative), halfFloor: half > 0 || (half === 0 && d.negative),
    halfExpand: half >= 0, halfTrunc: half > 0, halfEven: half > 0 || (half === 0 && odd),
  }[mode] && regExpExec(/[1-9]/, rest) !== null;
  let kept = strSlice(digits, 0, keep);
  if (up) {
    let i = keep - 1;
    while (i >= 0 && kept[i] === '9') i--;
    kept = i < 0 ? '1' + repeat('0', keep) : strSlice(kept, 0, i) + (parseInt(kept[i], 10) + 1) + repeat('0', keep - 1 - i);
    if (i < 0) point++;
  }
  return trimmed({ negative: d.negative, digits: kept, point });
}

const Big = BigInt;

// times multiplies by a small whole number.
function times(d, n) {
  const digits = `${Big(d.digits || '0') * Big(n)}`;
  return trimmed({ negative: d.negative, digits, point: d.point + digits.length - d.digits.length });
}

// roundToMultiple rounds to a multiple of n, which divides a power of ten, in units of the last of so many digits of the fraction.
export function roundToMultiple(d, fraction, n, mode) {
  if (d.digits === '') return d;
  let power = 0;
  while (10 ** power % n > 0) power++;
  const parts = shift(times(d, 10 ** power / n), fraction - power);
  return shift(times(roundTo(parts, parts.point, mode), n), -fraction);
}

// fixed returns [integer, fraction] digits with at least so many of each.
export function fixed(d, minInteger, minFraction) {
  const whole = d.point > 0 ? padEnd(strSlice(d.digits, 0, d.point), d.point, '0') : '0';
  const rest = d.point > 0 ? strSlice(d.digits, d.point) : repeat('0', d.digits === '' ? 0 : -d.point) + d.digits;
  return [padStart(whole, minInteger, '0'), padEnd(rest, minFraction, '0')];
}
