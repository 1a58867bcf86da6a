// Upper and lower case of a language: Turkish and Azerbaijani have an i without a dot, and Greek capitals have no accents.
import { normalize, strSlice, toLowerCase, toUpperCase } from '../../intrinsics.js';
import { replace, test } from '../../text.js';

const dotless = (tag) => test(/^(?:tr|az)(?:-|$)/, tag);

export function lowerIn(text, tag) {
  if (!dotless(tag)) return toLowerCase(text);
  return toLowerCase(replace(/\u0130|I\u0307?/g, text, (m) => (m[0] === 'I' ? '\u0131' : 'i')));
}

export function upperIn(text, tag) {
  if (dotless(tag)) return toUpperCase(replace(/i/g, text, () => '\u0130'));
  if (strSlice(tag, 0, 2) !== 'el' || !test(/^el(?:-|$)/, tag)) return toUpperCase(text);
  // An accent goes; a diaeresis comes where the accent alone kept two vowels apart. The word \u03ae, or, keeps its own.
  const words = replace(/(^|[^\p{L}\p{M}])[\u03b7\u0397]\u0301(?![\p{L}\p{M}])/gu, normalize(text, 'NFD'), (m) => `${m[1]}\u0389`);
  const apart = replace(/([\u03b1\u03b5\u03bf\u0391\u0395\u039f])\u0301([\u03b9\u03c5\u0399\u03a5])(?![\u0308\u0301])/g, words, (m) => `${m[1]}${m[2]}\u0308`);
  return normalize(toUpperCase(replace(/[\u0300\u0301\u0304\u0306\u0313\u0314\u0342]/g, apart, () => '')), 'NFC');
}
