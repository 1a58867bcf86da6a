// Files, and errors of files.
await fs.writeFile('/workspace/a.txt', 'one')
await fs.appendFile('/workspace/a.txt', ' two')
await fs.mkdir('/workspace/d')
const missing = await fs.readFile('/workspace/none').catch((e) => [e.name, e.code, e.message])
const out = [await fs.readFile('/workspace/a.txt', 'utf8'), (await fs.readdir('/workspace')).sort(), missing, require('fs') === fs]
await fs.unlink('/workspace/a.txt')
await fs.rm('/workspace/d', { recursive: true })
return out
