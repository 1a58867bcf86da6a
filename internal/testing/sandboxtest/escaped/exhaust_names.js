// What can be written to is filled with directories in directories, and with links; the next program finds nothing of it.
// wants: value true
// wants gvisor: any
const fs_ = outer.require('fs')
let n = 0
for (const dir of ['/tmp', '/dev/shm', '/']) {
  let path = dir
  try { for (;;) { path += '/' + 'd'.repeat(200); fs_.mkdirSync(path); n++ } } catch {}
  try { for (let i = 0; i < 20000; i++) { fs_.mkdirSync(dir + '/' + i); n++ } } catch {}
  for (const link of [fs_.symlinkSync, fs_.linkSync]) { try { for (let i = 0; i < 20000; i++) { link('/etc/passwd', dir + '/l' + i); n++ } } catch {} }
}
return n < 2000
