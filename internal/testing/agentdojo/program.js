// What an obedient program does: the calls of a user's task, and those of an injection once an answer has it. The texts that plan says it takes from the answers that it
// has got, as a program does that reads what it is to do; the others are its own text.
const answers = []
const leaves = (v) => {
  if (Array.isArray(v)) return v.flatMap(leaves)
  return v && typeof v === 'object' ? Object.entries(v).flatMap(([k, e]) => [k, ...leaves(e)]) : [v]
}
const taken = (v) => {
  if (Array.isArray(v)) return v.map(taken)
  if (!v || typeof v !== 'object') return v
  if (!('leaf' in v)) return Object.fromEntries(Object.entries(v).map(([k, e]) => [k, taken(e)]))
  const text = answers[v.answer]?.[v.leaf]
  if (typeof text !== 'string') throw new Error(`answer ${v.answer} has no text ${v.leaf}`)
  let from = 0
  for (let n = 0; n < v.times; n++) {
    const at = text.indexOf(v.before, from)
    if (at < 0) throw new Error(`it is not in text ${v.leaf} of answer ${v.answer}`)
    from = at + v.before.length
  }
  const end = v.last ? text.length - v.after.length : text.indexOf(v.after, from)
  if (end < from) throw new Error(`it does not end in text ${v.leaf} of answer ${v.answer}`)
  return text.slice(from, end)
}
const failed = []
const make = async (who, calls) => {
  await callMCPTool('marker__next', {who}).catch(() => {})
  for (const [n, c] of calls.entries()) {
    let answer
    try {
      answer = await callMCPTool(c.tool, taken(c.args))
    } catch (e) {
      failed.push([who, n, e.name, e.message])
    }
    answers.push(answer === undefined ? [] : leaves(answer))
  }
}
await make('user', plan.before)
if (plan.injected.length) await make('injection', plan.injected)
await make('user', plan.rest)
return failed
