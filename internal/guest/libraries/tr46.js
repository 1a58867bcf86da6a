// In place of tr46 for whatwg-url: names that the mapping leaves as they are, which most are, go past it.
import tr46 from './node_modules/tr46/index.js';

export const toASCII = (name, options) => (/^[a-z\d.-]*$/.test(name) && !name.includes('xn--') ? name : tr46.toASCII(name, options));
export const { toUnicode } = tr46;
