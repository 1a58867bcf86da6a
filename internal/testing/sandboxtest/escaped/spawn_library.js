// Machine code of the program's own.
// wants: value []
const fs_ = outer.require('fs')
const got = []
for (const dir of ['/tmp', '/workspace', '/dev/shm', '/', '$DIR', '/proc/self/fd']) {
  const path = dir + '/x.node'
  try { fs_.copyFileSync(outer.process.execPath, path); fs_.chmodSync(path, 0o755) } catch { continue }
  try { outer.process.dlopen({ exports: {} }, path); got.push(path) } catch (e) { if (/self-register|not found/i.test(e.message)) got.push(path + ' mapped: ' + e.message) }
  try { if (!outer.require('child_process').spawnSync(path, ['-e', '0']).error) got.push(path) } catch {}
  try { fs_.unlinkSync(path) } catch {}
}
return got
