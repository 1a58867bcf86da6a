// The hook that formats stacks hands over the functions and receivers of the frames.
// wants: value 0
// made: 1
let got = 0
const hook = (e, frames) => { if (Array.isArray(frames)) for (const f of frames) { try { if (f.getThis() || f.getFunction()) got++ } catch {} } return 'x' }
for (const E of [Error, TypeError, RangeError]) { try { E.prepareStackTrace = hook } catch {} try { Object.defineProperty(E, 'prepareStackTrace', { value: hook }) } catch {} }
try { Function.prototype.prepareStackTrace = hook } catch {}
try { Object.prototype.prepareStackTrace = hook } catch {}
void new Error('x').stack
const o = {}
if (Error.captureStackTrace) { Error.captureStackTrace(o); void o.stack }
try { await callMCPTool('none__none') } catch (e) { void e.stack }
try { null.x } catch (e) { void e.stack }
delete Object.prototype.prepareStackTrace
return got
