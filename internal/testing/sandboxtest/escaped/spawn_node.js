// Node.js itself once more: its program is there.
// wants: value [0]
// wants process: value [null]
// wants docker: value [null]
const cp = outer.require('child_process')
return [cp.spawnSync(outer.process.execPath, ['-e', '0']).status]
