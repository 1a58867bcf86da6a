// The address of a name.
// wants: value 0
let got = 0
outer.require('dns').lookup('example.com', (err) => { if (!err) got++ })
for (let i = 0; i < 10; i++) await utils.sleep(2)
return got
