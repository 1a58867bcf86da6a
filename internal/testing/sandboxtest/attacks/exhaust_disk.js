// The workspace is filled.
// wants: value [true,true]
const text = 'x'.repeat(100000)
let full = false, many = false
try { for (let i = 0; i < 50; i++) await fs.writeFile('/workspace/big' + i, text) } catch (e) { full = e.name === 'FSError' || e instanceof Error }
for (const name of await fs.readdir('/workspace')) if (name.startsWith('big')) await fs.unlink('/workspace/' + name)
try { for (let i = 0; i < 200; i++) await fs.mkdir('/workspace/d' + i) } catch (e) { many = e instanceof Error }
for (let i = 0; i < 200; i++) await fs.rm('/workspace/d' + i, { recursive: true }).catch(() => {})
return [full, many]
