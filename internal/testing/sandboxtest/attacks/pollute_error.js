// The constructors of errors, which the guest runtime and the host's answers use.
// wants: value "ToolError"
// made: 1
const Native = ToolError
for (const E of [Error, TypeError, RangeError, SyntaxError]) {
  try { E.prototype.name = 'forged'; E.prototype.message = 'forged'; E.prototype.toString = () => { throw 1 } } catch {}
  try { Object.defineProperty(E, Symbol.hasInstance, { value: () => true }) } catch {}
}
globalThis.Error = globalThis.TypeError = globalThis.ToolError = function () { throw 'forged' }
Object.defineProperty(Native.prototype, 'kind', { get: () => 'timeout', configurable: true })
return await callMCPTool('none__none').catch((e) => e.name)
