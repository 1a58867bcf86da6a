// As many processes as there can be.
// wants: value true
// wants gvisor: any
const cp = outer.require('child_process')
let n = 0
for (let i = 0; i < 500; i++) { try { if (cp.spawn(outer.process.execPath, ['-e', 'for(;;);'], { detached: true, stdio: 'ignore' }).on('error', () => {}).pid) n++ } catch {} }
return n < 70
