// Paths of thousands of parts, which the host has to walk.
// wants: value ["refused","refused",true]
const tried = async (f) => { try { await f(); return 'done' } catch (e) { return e instanceof Error ? 'refused' : 'thrown' } }
const deep = '/workspace/' + 'a/'.repeat(20000) + 'b'
return [await tried(() => fs.writeFile(deep, 'x')), await tried(() => fs.mkdir(deep, { recursive: true })), (await fs.readdir('/workspace')).length < 3]
