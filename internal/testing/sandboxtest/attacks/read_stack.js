// Paths of the host in the text of a stack.
// wants: value []
// made: 1
const stacks = [new Error('x').stack]
await callMCPTool('none__none').catch((e) => stacks.push(e.stack))
await new Promise((done) => setTimeout(() => { stacks.push(new Error('y').stack); done() }, 1))
try { null.x } catch (e) { stacks.push(e.stack) }
try { (function f() { f() })() } catch (e) { stacks.push(e.stack) }
try { JSON.parse('{') } catch (e) { stacks.push(e.stack) }
stacks.push(await Promise.resolve().then(() => new Error('z').stack))
return stacks.join('\n').split('\n').filter((line) => /\/(tmp|usr|home|root|etc|var|opt|build|src|internal\/sandbox)\/|\.go\b/.test(line)).map((line) => line.trim())
