// An error outside of the program, which ends the runner.
// wants: error crash
outer.require('timers').setImmediate(() => { throw 1 })
for (let i = 0; i < 5; i++) await utils.sleep(1)
return 1
