// A datagram.
// wants: value 0
let got = 0
try { outer.require('dgram').createSocket('udp4').on('error', () => {}).send('x', $PORT, '127.0.0.1', () => {}) } catch {}
for (let i = 0; i < 5; i++) await utils.sleep(1)
return got
