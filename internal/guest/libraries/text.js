// The encoders that whatwg-url takes from the global object.
import { utf8fromStringLoose, utf8toStringLoose } from '@exodus/bytes/utf8.js';

globalThis.TextEncoder = class {
  encode(text) { return utf8fromStringLoose(text); }
};
globalThis.TextDecoder = class {
  decode(bytes) { return utf8toStringLoose(bytes); }
};
