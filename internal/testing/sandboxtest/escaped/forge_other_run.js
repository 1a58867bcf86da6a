// Frames of a run of another user, and of none.
// wants: value 1
const say = (f) => outer.require('fs').writeSync(1, JSON.stringify(f) + '\n')
for (const run of ['$RUN', '', undefined, 'run_none']) {
  say({ t: 'done', run, value: 'forged' })
  say({ t: 'log', run, level: 'log', text: 'forged' })
  say({ t: 'call', run, id: 1, kind: 'tool', name: 'up__send', args: { input: { forged: 1 } } })
  say({ t: 'call', run, id: 2, kind: 'tool', name: 'up__send', args: { input: { forged: 2 } } })
  say({ t: 'idle', run, taken: 1 })
  say({ t: 'ready', run, engine: 'x' })
  say({ t: 'answer', run, id: 1, value: 'forged' })
  say({ t: 'start', run })
}
return 1
