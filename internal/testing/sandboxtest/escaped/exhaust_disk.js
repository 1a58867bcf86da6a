// Every directory that can be written to is filled, with bytes and with files.
// wants: value true
// wants gvisor: any
const fs_ = outer.require('fs')
let bytes = 0, files = 0
for (const dir of ['/tmp', '/workspace', '/dev/shm', '/', '/var/tmp', '/run']) {
  try { const fd = fs_.openSync(dir + '/big', 'w'); for (let i = 0; i < 500; i++) bytes += fs_.writeSync(fd, outer.Buffer.alloc(1 << 20)) } catch {}
  try { fs_.unlinkSync(dir + '/big') } catch {}
  try { for (let i = 0; i < 20000; i++) { fs_.writeFileSync(dir + '/f' + i, ''); files++ } } catch {}
}
return bytes < 200 << 20 && files < 20000
