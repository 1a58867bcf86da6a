// Variables of the runner and of the guest runtime, by the scopes of code that is compiled at run time.
// wants: value []
const got = []
for (const name of ['__harness', 'PRELUDE', 'module', 'exports', '__filename', '__dirname', 'host', 'send', 'sendSync', 'compile', 'realm', 'evaluate', 'vm', 'fs_', 'global', 'root', 'boot', 'process', 'Deno', 'Bun', 'std', 'os', 'scriptArgs', 'print', 'gc', 'quit', 'load', 'read', 'd8']) {
  for (const look of [(n) => (0, eval)('typeof ' + n), (n) => eval('typeof ' + n), (n) => Function('return typeof ' + n)(), (n) => typeof Function('return this')()[n]]) {
    if (look(name) !== 'undefined') got.push(name)
  }
}
return got
