// Files of the host: secrets, other users', the harness's own, devices.
// wants: value []
const { readFileSync, readdirSync } = outer.require('fs')
const got = []
for (const path of ['$FILE', '$DIR', '/work', '/home', '/root', '/etc/shadow', '/var/run/docker.sock', '/run/docker.sock', '/boot', '/proc/kcore', '/dev/mem', '/dev/kmsg', '/dev/kvm', '/dev/vsock', '/dev/sda', '/dev/vda', '/proc/1/root$FILE', '/proc/self/root/../..$FILE', '/proc/1/cwd$FILE']) {
  for (const read of [(p) => readFileSync(p, 'utf8'), readdirSync]) {
    try { got.push(path + ': ' + String(read(path)).slice(0, 100)) } catch {}
  }
}
return got
