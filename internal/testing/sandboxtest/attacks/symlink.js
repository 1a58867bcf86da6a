// A link in the workspace that the host follows when it reads it back.
// wants: value []
const got = []
for (const name of ['symlink', 'link', 'symlinkSync', 'linkSync', 'readlink', 'mknod', 'chmod', 'chown', 'watch', 'open', 'createReadStream']) {
  for (const target of [fs, fs.promises ?? {}, require('fs')]) {
    if (typeof target[name] !== 'function') continue
    try {
      const r = await target[name]('$FILE', '/workspace/link')
      if (name.includes('link')) got.push(name + String(await fs.readFile('/workspace/link', 'utf8')))
      void r
    } catch {}
  }
}
return got
