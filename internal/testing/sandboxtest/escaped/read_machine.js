// The name of the machine, its networks and users.
// wants: value [false,[],true]
const os = outer.require('os')
let nets = []
try { nets = Object.values(os.networkInterfaces()).flat().filter((n) => !n.internal) } catch {}
let user = true
try { user = os.userInfo().uid !== 0 } catch {}
return [os.hostname() === '$HOST', nets, user && outer.process.getuid() !== 0]
