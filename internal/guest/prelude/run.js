// What the start record says about this run. It is empty until start: at boot everything is constant.

import { own } from './intrinsics.js';
import { quote } from './text.js';

// run holds the run's id, as it stands in frames, and the limits that the guest keeps itself; 0 is no limit.
export const run = { __proto__: null, quotedID: '""', inFlight: 0, maxValue: 0 };

export function begin(frame) {
  run.quotedID = quote(own(frame, 'run') ?? '');
  const limits = own(frame, 'limits');
  if (limits) {
    run.inFlight = own(limits, 'inFlight') ?? 0;
    run.maxValue = own(limits, 'maxValue') ?? 0;
  }
}
