// Proxies that are revoked while they are looked at, and a chain of prototypes that goes round.
// wants: error runtime
// log: *
const { proxy, revoke } = Proxy.revocable({}, { ownKeys() { revoke(); return [] } })
console.log(proxy)
console.log(proxy)
const round = {}
const p = new Proxy(round, { getPrototypeOf: () => p })
Object.setPrototypeOf(round, p)
throw p
