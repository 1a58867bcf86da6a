// Domain names in ASCII (RFC 3492, and UTS 46 for the ordinary cases: NFKC, lower case, ignored characters removed; no
// bidi and joiner rules).
import {
  charCodeAt, codePointAt, floor, fromCharCode, fromCodePoint, join, lower, normalize, push, replace, slice, split,
  splice, startsWith, strLastIndexOf, test,
} from './intrinsics.js';

const IGNORED = /[\u00ad\u034f\u180b-\u180d\u200b\u2060\u2064\ufe00-\ufe0f\ufeff]/g;
const DOTS = /[\u3002\uff0e\uff61]/g;

const NOT_ASCII = /[^\0-\x7f]/;
// What UTS 46 leaves valid, nearly: letters, marks, numbers and symbols, not beginning with a mark. Joiners are refused
// because their rules need the scripts' joining types.
const LABEL = /^(?!\p{M})(?:[\p{L}\p{M}\p{N}\p{S}\p{Pc}\p{Pd}\p{Po}\0-\x7f](?<!\ufffd))+$/u;

const map = (text) => lower(normalize(replace(/\u1e9e/g, text, () => 'ss'), 'NFKC'));

// toASCII returns a domain with every label in ASCII; undefined where a label is not valid.
export function toASCII(domain) {
  let text = lower(domain);
  if (test(NOT_ASCII, domain)) {
    text = normalize(map(replace(DOTS, replace(IGNORED, domain, () => ''), () => '.')), 'NFC');
  }
  const labels = split(text, '.');
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i];
    if (test(NOT_ASCII, label)) {
      if (!test(LABEL, label)) return undefined;
      labels[i] = 'xn--' + encode(label);
    } else if (startsWith(label, 'xn--')) {
      const plain = decode(slice(label, 4));
      if (plain === undefined || !test(NOT_ASCII, plain) || !test(LABEL, plain) || map(plain) !== plain) return undefined;
    }
  }
  return join(labels, '.');
}

// adapt is RFC 3492's bias adaptation.
function adapt(delta, points, first) {
  delta = first ? floor(delta / 700) : delta >> 1;
  delta += floor(delta / points);
  let k = 0;
  for (; delta > 455; k += 36) delta = floor(delta / 35);
  return k + floor((36 * delta) / (delta + 38));
}

const threshold = (k, bias) => (k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias);
const digit = (d) => fromCharCode(d < 26 ? d + 97 : d + 22);

function encode(label) {
  const points = [];
  let out = '';
  for (let i = 0; i < label.length; i++) {
    const c = codePointAt(label, i);
    push(points, c);
    if (c > 0xffff) i++;
    if (c < 0x80) out += fromCharCode(c);
  }
  const basic = out.length;
  if (basic > 0) out += '-';
  let n = 0x80;
  let delta = 0;
  let bias = 72;
  for (let handled = basic; handled < points.length; ) {
    let next = Infinity;
    for (let i = 0; i < points.length; i++) if (points[i] >= n && points[i] < next) next = points[i];
    delta += (next - n) * (handled + 1);
    n = next;
    for (let i = 0; i < points.length; i++) {
      if (points[i] < n) delta++;
      if (points[i] !== n) continue;
      let q = delta;
      for (let k = 36; ; k += 36) {
        const t = threshold(k, bias);
        if (q < t) break;
        out += digit(t + ((q - t) % (36 - t)));
        q = floor((q - t) / (36 - t));
      }
      out += digit(q);
      bias = adapt(delta, handled + 1, handled === basic);
      delta = 0;
      handled++;
    }
    delta++;
    n++;
  }
  return out;
}

function decode(text) {
  const points = [];
  const basic = strLastIndexOf(text, '-');
  for (let i = 0; i < basic; i++) push(points, charCodeAt(text, i));
  let n = 0x80;
  let bias = 72;
  let i = 0;
  for (let at = basic > 0 ? basic + 1 : 0; at < text.length; ) {
    const old = i;
    for (let w = 1, k = 36; ; k += 36) {
      const c = charCodeAt(text, at++);
      const d = c >= 97 && c <= 122 ? c - 97 : c >= 48 && c <= 57 ? c - 22 : NaN;
      if (!(d >= 0) || i > 0x7fffffff) return undefined;
      i += d * w;
      const t = threshold(k, bias);
      if (d < t) break;
      w *= 36 - t;
    }
    bias = adapt(i - old, points.length + 1, old === 0);
    n += floor(i / (points.length + 1));
    i %= points.length + 1;
    if (n > 0x10ffff) return undefined;
    splice(points, i++, 0, n);
  }
  let out = '';
  for (let k = 0; k < points.length; k++) out += fromCodePoint(points[k]);
  return out;
}
