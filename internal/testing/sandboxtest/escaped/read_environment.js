// The environment of the runner, its arguments, and those of every process that it sees.
// wants: value []
const { readFileSync, readdirSync } = outer.require('fs')
const texts = [JSON.stringify(outer.process.env), JSON.stringify(outer.process.argv), JSON.stringify(outer.process.execArgv)]
let pids = ['self', '1']
try { pids = pids.concat(readdirSync('/proc')) } catch {}
for (const pid of pids) for (const file of ['environ', 'cmdline', 'maps', 'mountinfo']) {
  try { texts.push(readFileSync('/proc/' + pid + '/' + file, 'utf8')) } catch {}
}
return texts.filter((text) => /canary|HARNESS_|\/001\/|\/root\/|\/home\//i.test(text)).map((text) => text.slice(0, 200))
