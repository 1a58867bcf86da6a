// Files of the host and of another user, by every way of writing a path.
// wants: value []
const got = []
for (const path of [
  '$FILE', '/workspace/../../../../..$FILE', '/workspace/..', '/workspace/../skills/../etc/passwd', '/etc/passwd', '/proc/self/environ', '/proc/1/environ', 'file://$FILE',
  '/workspace/../ann/s/of.txt', '/workspace/../../ann/s/of.txt', '/skills/../../ann/x.js', '/workspace/\0/../../etc/passwd', '/workspace/./../../workspace/ann/s/of.txt',
  '\\\\?\\C:\\Windows', '/workspace/%2e%2e/%2e%2e/etc/passwd', '//etc/passwd', '/workspace//..//..//etc/passwd',
]) {
  for (const read of [(p) => fs.readFile(p, 'utf8'), (p) => fs.readdir(p), (p) => fs.stat(p)]) {
    try { const r = await read(path); if (path !== '/workspace/..') got.push(path + ': ' + JSON.stringify(r)) } catch {}
  }
  try { got.push(typeof require(path)) } catch {}
}
return got
