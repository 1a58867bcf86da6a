// Every process that the program could signal.
// wants: value []
// wants gvisor: any
const got = []
for (const pid of [$PID, outer.process.ppid, 2, 3, 100, 1000]) {
  if (pid === outer.process.pid || pid === 0) continue
  try { outer.process.kill(pid, 0); got.push(pid) } catch {}
}
return got
