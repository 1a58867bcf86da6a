// Strings, which an engine keeps as ropes until somebody reads them.
// wants: error memory
const all = []
for (let i = 0; ; i++) all.push(('s' + i).repeat(5000))
