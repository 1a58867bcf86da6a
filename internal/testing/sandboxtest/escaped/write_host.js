// Files that are there, and new ones where others would read them.
// wants: value []
const fs_ = outer.require('fs')
const got = []
for (const path of ['/', '/runner.cjs', outer.process.execPath, '$FILE', '$DIR/x', '/etc/x', '/etc/passwd', '/usr/lib/x.so', '/lib/x.so', '/proc/self/oom_score_adj', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/fs/cgroup/x', '/x']) {
  for (const write of [(p) => fs_.writeFileSync(p, 'x'), (p) => fs_.appendFileSync(p, 'x'), (p) => fs_.mkdirSync(p + '.d'), (p) => fs_.symlinkSync('/etc', p + '.l'), (p) => fs_.chmodSync(p, 0o777), (p) => fs_.unlinkSync(p), (p) => fs_.renameSync(p, p + '.r')]) {
    try { write(path); got.push(path + ' ' + write) } catch {}
  }
}
return got
