// The hosts of URLs: domains, IPv4 and IPv6 addresses, opaque hosts (URL Standard, section 3.5). Every function returns
// undefined for what is no valid host.
import { endsWith, floor, int, numString, pop, pow, push, slice, split, startsWith, test } from './intrinsics.js';
import { C0, percentBytes, percentEncode } from './percent.js';
import { toASCII } from './punycode.js';
import { decode } from './utf8.js';

const FORBIDDEN_HOST = /[\0\t\n\r #/:<>?@[\\\]^|]/;
const FORBIDDEN_DOMAIN = /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/;

// parseHost parses and serializes a host; a special scheme's is a domain or an address.
export function parseHost(text, special) {
  if (startsWith(text, '[')) return endsWith(text, ']') ? ipv6(slice(text, 1, -1)) : undefined;
  if (!special) return test(FORBIDDEN_HOST, text) ? undefined : percentEncode(text, C0);
  const domain = toASCII(decode(percentBytes(text), false));
  if (domain === undefined || domain === '' || test(FORBIDDEN_DOMAIN, domain)) return undefined;
  return endsInNumber(domain) ? ipv4(domain) : domain;
}

function endsInNumber(domain) {
  const parts = split(domain, '.');
  if (parts.length > 1 && parts[parts.length - 1] === '') pop(parts);
  return test(/^(?:\d+|0x[\da-f]*)$/, parts[parts.length - 1]);
}

function ipv4(text) {
  const parts = split(text, '.');
  if (parts.length > 1 && parts[parts.length - 1] === '') pop(parts);
  if (parts.length > 4) return undefined;
  let address = 0;
  for (let i = 0; i < parts.length; i++) {
    const value = ipv4Number(parts[i]);
    const limit = i === parts.length - 1 ? pow(256, 5 - parts.length) : 256;
    if (!(value < limit)) return undefined;
    address += i === parts.length - 1 ? value : value * pow(256, 3 - i);
  }
  return `${floor(address / 0x1000000)}.${(address >> 16) & 255}.${(address >> 8) & 255}.${address & 255}`;
}

function ipv4Number(text) {
  if (test(/^0x[\da-f]*$/, text)) return text.length === 2 ? 0 : int(slice(text, 2), 16);
  if (test(/^0[0-7]*$/, text)) return int(text, 8);
  return test(/^[1-9]\d*$/, text) ? int(text, 10) : NaN;
}

function ipv6(text) {
  const halves = split(text, '::');
  if (halves.length > 2) return undefined;
  const head = pieces(halves[0], halves.length === 1);
  const tail = halves.length === 2 ? pieces(halves[1], true) : [];
  if (head === undefined || tail === undefined) return undefined;
  const gap = 8 - head.length - tail.length;
  if (halves.length === 2 ? gap < 1 : gap !== 0) return undefined;
  for (let i = 0; i < gap; i++) push(head, 0);
  for (let i = 0; i < tail.length; i++) push(head, tail[i]);
  return `[${compress(head)}]`;
}

// pieces reads one side of a '::'; only the last one may end in dotted decimals.
function pieces(text, last) {
  if (text === '') return [];
  const out = [];
  const parts = split(text, ':');
  for (let i = 0; i < parts.length; i++) {
    if (last && i === parts.length - 1 && test(/^(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})$/, parts[i])) {
      const b = split(parts[i], '.');
      for (let k = 0; k < 4; k++) if (+b[k] > 255) return undefined;
      push(out, b[0] * 256 + +b[1], b[2] * 256 + +b[3]);
    } else if (test(/^[\da-fA-F]{1,4}$/, parts[i])) push(out, int(parts[i], 16));
    else return undefined;
  }
  return out;
}

// compress serializes with the first longest run of zeros as '::'.
function compress(address) {
  let best = -1;
  let length = 1;
  for (let i = 0; i < 8; i++) {
    let n = 0;
    while (i + n < 8 && address[i + n] === 0) n++;
    if (n > length) {
      best = i;
      length = n;
    }
    i += n;
  }
  let out = '';
  for (let i = 0; i < 8; i++) {
    if (i === best) {
      out += i === 0 ? '::' : ':';
      i += length - 1;
      continue;
    }
    out += numString(address[i], 16) + (i < 7 ? ':' : '');
  }
  return out;
}
