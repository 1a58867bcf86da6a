// Files that Node.js itself writes.
// wants: value []
const got = []
const v8 = outer.require('v8')
for (const write of [() => v8.writeHeapSnapshot('$DIR/x'), () => v8.writeHeapSnapshot('/x'), () => outer.process.report.writeReport('$DIR/x')]) {
  try { if (outer.require('fs').statSync(write())) got.push(String(write)) } catch {}
}
return got
