// pii: questions about the tokens that stand for personal data. The host answers them without the values.

import { attempt, isInteger, NativeTypeError } from './intrinsics.js';
import { request } from './calls.js';
import { quote, record } from './text.js';
import { kindName } from './tools.js';

function text(question, token) {
  if (typeof token === 'string') return quote(token);
  throw new NativeTypeError(`pii.${question} takes a token, as a string; got ${kindName(token)}`);
}

const about = (question) => (token) => attempt(() => request('pii', question, record('tokens', `[${text(question, token)}]`)));

export const pii = {
  kind: about('kind'),
  domain: about('domain'),
  last4: about('last4'),
  country: about('country'),
  same: (a, b) => attempt(() => request('pii', 'same', record('tokens', `[${text('same', a)},${text('same', b)}]`))),
  sortKey: about('sortKey'),
  network: (token, bits) => attempt(() => {
    if (!isInteger(bits)) throw new NativeTypeError(`pii.network takes a number of bits, such as 24; got ${kindName(bits)}`);
    return request('pii', 'network', record('tokens', `[${text('network', token)}]`, 'bits', `${bits}`));
  }),
};
