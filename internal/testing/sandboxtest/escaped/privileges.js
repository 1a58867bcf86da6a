// Another user, other groups, another priority.
// wants: value []
// wants docker: value ["() => outer.process.chdir('/proc/1/root')"]
// wants gvisor: value ["() => outer.require('os').setPriority(-20)","() => outer.process.chdir('/proc/1/root')"]
const got = []
for (const gain of [() => outer.process.setuid(0), () => outer.process.seteuid(0), () => outer.process.setgid(0), () => outer.process.setgroups([0]), () => outer.process.initgroups('root', 0), () => outer.require('os').setPriority(-20), () => outer.process.chdir('/proc/1/root')]) {
  try { gain(); got.push(String(gain)) } catch {}
}
return got
