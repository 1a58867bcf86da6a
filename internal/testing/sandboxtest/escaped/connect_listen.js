// A port on which others reach the program.
// wants: value "open"
// wants process: value "closed"
// wants docker: value "closed"
let got = 'closed'
outer.require('net').createServer().on('error', () => {}).listen(0, '0.0.0.0', () => { got = 'open' })
for (let i = 0; i < 5; i++) await utils.sleep(1)
return got
