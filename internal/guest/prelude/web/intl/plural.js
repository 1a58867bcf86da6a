// Plural categories (CLDR) of the locales here, from the digits as they are formatted.
import { int, num, slice, test } from '../intrinsics.js';

// cardinal takes the integer and fraction digits as shown; exponent is a compact number's power of ten.
export function cardinal(language, integer, fraction, exponent = 0) {
  const i = num(integer);
  const v0 = fraction === '';
  switch (language) {
    case 'ja': return 'other';
    case 'fr':
    case 'pt':
      if (i === 0 || i === 1) return 'one';
      break;
    case 'es':
      if (i === 1 && !test(/[1-9]/, fraction)) return 'one';
      break;
    default:
      if (i === 1 && v0) return 'one';
  }
  if (language !== 'en' && language !== 'de' && language !== 'nl' && language !== 'sv') {
    if ((exponent === 0 && i !== 0 && i % 1000000 === 0 && v0) || exponent > 5) return 'many';
  }
  return 'other';
}

// ordinal is English's: 1st, 2nd, 3rd, 4th.
export function ordinal(integer, fraction) {
  if (fraction !== '') return 'other';
  const ten = int(slice(integer, -1), 10);
  const hundred = int(slice(integer, -2), 10);
  if (ten === 1 && hundred !== 11) return 'one';
  if (ten === 2 && hundred !== 12) return 'two';
  return ten === 3 && hundred !== 13 ? 'few' : 'other';
}
