// Buffer's numbers: readUInt8 to writeBigInt64BE, and readUIntLE(offset, byteLength) and its like for 1 to 6 bytes.
import { isInteger, pow, toNumber, typedArrayBuffer, typedArrayByteOffset, uncurry } from '../intrinsics.js';
import { argument, coded, range } from '../node/refuse.js';
import { method } from './shapes.js';

const View = DataView;

// [name, DataView's name, bytes, smallest, largest]; floats have no bounds.
const KINDS = [
  ['UInt8', 'Uint8', 1, 0, 0xff], ['UInt16', 'Uint16', 2, 0, 0xffff], ['UInt32', 'Uint32', 4, 0, 0xffffffff],
  ['Int8', 'Int8', 1, -0x80, 0x7f], ['Int16', 'Int16', 2, -0x8000, 0x7fff],
  ['Int32', 'Int32', 4, -0x80000000, 0x7fffffff], ['Float', 'Float32', 4], ['Double', 'Float64', 8],
  ['BigInt64', 'BigInt64', 8, -(2n ** 63n), 2n ** 63n - 1n], ['BigUInt64', 'BigUint64', 8, 0n, 2n ** 64n - 1n],
];

export function defineNumbers(proto) {
  const between = (name, value, low, high) => range(!(value < low || value > high), name, `>= ${low} and <= ${high}`, value);

  // view makes a DataView of size bytes at offset, checked.
  const view = (buffer, offset, size) => {
    argument(typeof offset === 'number', 'offset', 'of type number', offset);
    range(isInteger(offset), 'offset', 'an integer', offset);
    if (size > buffer.length) throw coded(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', 'Attempt to access memory outside buffer bounds');
    between('offset', offset, 0, buffer.length - size);
    return new View(typedArrayBuffer(buffer), typedArrayByteOffset(buffer) + offset, size);
  };

  const define = (verb, name, fn) => {
    method(proto, verb + name, fn);
    if (name.includes('UInt')) method(proto, verb + name.replace('UInt', 'Uint'), fn);
  };

  for (const [name, kind, size, low, high] of KINDS) {
    const get = uncurry(View.prototype[`get${kind}`]);
    const set = uncurry(View.prototype[`set${kind}`]);
    for (const little of [true, false]) {
      if (size === 1 && !little) continue;
      const full = name + (size === 1 ? '' : little ? 'LE' : 'BE');
      define('read', full, function (offset = 0) {
        return get(view(this, offset, size), 0, little);
      });
      define('write', full, function (value, offset = 0) {
        if (low !== undefined) between('value', value, low, high);
        set(view(this, offset, size), 0, value, little);
        return offset + size;
      });
    }
  }

  const width = (n) => {
    range(isInteger(n) && n >= 1 && n <= 6, 'byteLength', '>= 1 and <= 6', n);
    return n;
  };
  for (const signed of [true, false]) {
    for (const little of [true, false]) {
      const full = (signed ? 'Int' : 'UInt') + (little ? 'LE' : 'BE');
      define('read', full, function (offset, byteLength) {
        view(this, offset, width(byteLength));
        let value = 0;
        for (let i = 0; i < byteLength; i++) value = value * 256 + this[offset + (little ? byteLength - 1 - i : i)];
        return signed && value >= pow(2, 8 * byteLength - 1) ? value - pow(256, byteLength) : value;
      });
      define('write', full, function (value, offset, byteLength) {
        view(this, offset, width(byteLength));
        const high = pow(2, 8 * byteLength - (signed ? 1 : 0)) - 1;
        const low = signed ? -high - 1 : 0;
        value = toNumber(value);
        between('value', value, low, high);
        for (let i = 0, rest = value < 0 ? value + high * 2 + 2 : value; i < byteLength; i++) {
          this[offset + (little ? i : byteLength - 1 - i)] = rest % 256;
          rest = (rest - (rest % 256)) / 256;
        }
        return offset + byteLength;
      });
    }
  }
}
