// A connection to the host, on which somebody listens.
// wants: value []
const got = []
const net = outer.require('net')
for (const to of [{ port: $PORT, host: '127.0.0.1' }, { port: $PORT, host: '::1' }, { port: 80, host: '169.254.169.254' }, { path: '/var/run/docker.sock' }, { path: '\0x' }]) {
  try { net.connect(to).on('connect', () => got.push(to)).on('error', () => {}) } catch {}
  for (let i = 0; i < 5; i++) await utils.sleep(1)
}
return got
