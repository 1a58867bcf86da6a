// The os module: what is the same on every machine.

import { refuse } from './refuse.js';

export const os = { EOL: '\n', devNull: '/dev/null', tmpdir: () => '/workspace' };
refuse('os', os, [
  'arch', 'availableParallelism', 'cpus', 'endianness', 'freemem', 'homedir', 'hostname', 'loadavg', 'machine', 'networkInterfaces',
  'platform', 'release', 'totalmem', 'type', 'uptime', 'userInfo', 'version',
], 'nothing of the machine is shown to programs');
