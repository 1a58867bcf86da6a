// Files of the host and of another user, written.
// wants: value []
const got = []
for (const path of ['$DIR/x', '$FILE', '/workspace/../../../../..$DIR/x', '/tmp/x', '/workspace/../../ann/s/of.txt', '/skills/../../ann/x.js', '/proc/self/oom_score_adj', '/dev/stdout', '/x']) {
  for (const write of [(p) => fs.writeFile(p, 'x'), (p) => fs.appendFile(p, 'x'), (p) => fs.mkdir(p), (p) => fs.unlink(p), (p) => fs.rename('/workspace/of.txt', p), (p) => fs.copyFile('/workspace/of.txt', p)]) {
    try { await write(path); got.push(path) } catch {}
  }
}
return got
