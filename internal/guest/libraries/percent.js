// In place of @exodus/bytes/whatwg.js: queries are UTF-8 here.
import { utf8fromStringLoose } from '@exodus/bytes/utf8.js';
import { percentEncoder } from './node_modules/@exodus/bytes/fallback/percent.js';

export const percentEncodeAfterEncoding = (encoding, text, set, plus) => percentEncoder(set, plus)(utf8fromStringLoose(text));
