// A shell.
// wants: value []
const cp = outer.require('child_process')
const got = []
for (const program of ['sh', '/bin/sh', '/bin/bash', '/usr/bin/env', 'busybox', 'ls', 'python3']) {
  const r = cp.spawnSync(program, ['-c', 'true'])
  if (!r.error) got.push(program)
}
return got
