// Checks the client against a server: node check.mjs all|stream|restart. The tests of the harness run it.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import { Harness, HarnessError, verifyWebhook } from './harness.js'

const { HARNESS_URL: url, HARNESS_KEY: key, HARNESS_APPROVER, HARNESS_ADMIN } = process.env
const user = 'typescript'
const same = assert.deepEqual

async function refused(asked, status, code) {
  const error = await asked.then(() => undefined, (error) => error)
  assert(error instanceof HarnessError, `no HarnessError: ${error}`)
  same([error.status, error.code], [status, code], error.message)
  return error
}

async function list(events) {
  const all = []
  for await (const event of events) all.push(event)
  return all
}

async function all() {
  const h = new Harness({ url, key })
  const approver = new Harness({ url, key: HARNESS_APPROVER })
  const admin = new Harness({ url, key: HARNESS_ADMIN })
  same((await h.health()).status, 'ok')

  const done = await h.task(user, 'How many orders came in today?')
  same([done.text, done.output, done.logs], ['42 orders came in today.', { orders: 42 }, ['counting']])
  same((await list(h.taskStream(user, 'Say hello.'))).join(''), 'Hello there.')
  const more = { context: { country: 'DE' }, budget: { turns: 5, wall: '2m' }, idempotencyKey: 'orders' }
  const task = await h.createTask('How many orders came in today?', more)
  same((await h.createTask('How many orders came in today?', more)).id, task.id)
  const events = (await list(h.taskEvents(task.id))).filter((e) => e.id)
  same(events.map((e) => e.id), events.map((_, i) => i + 1))
  same([events[0].type, events.at(-1).type], ['task.queued', 'task.ended'])
  same(await list(h.taskEvents(task.id, 1)), events.slice(1))
  same(await list(h.taskEvents(task.id, 1000)), [])
  same((await h.waitTask(task.id)).output, { orders: 42 })
  const page = await h.listTasks({ status: 'succeeded', limit: 1 })
  same([page.tasks.length, !!page.next], [1, true])
  const later = await h.createTask('Say hello.', { runAt: new Date(Date.now() + 864e5).toISOString() })
  same((await h.cancelTask(later.id)).status, 'cancelled')

  same((await h.createSession({ id: 'monday' })).id, 'monday')
  await h.createRun('await fs.writeFile("/workspace/n.txt", "42")', { sessionId: 'monday' })
  same((await h.createRun('return await fs.readFile("/workspace/n.txt")', { sessionId: 'monday' })).output, '42')
  same((await h.getSession('monday')).id, 'monday')
  assert((await h.listSessions()).sessions.some((s) => s.id === 'monday'))
  await h.deleteSession('monday')

  const table = 'day,total\nmon,40\ntue,2\n'
  const text = (file) => new TextDecoder().decode(file.data)
  await h.putFile('reports', 'in/totals.csv', table)
  same((await h.listFiles('reports')).files.map((f) => f.path), ['in', 'in/totals.csv'])
  same(text(await h.getFile('reports', 'in/totals.csv', { start: 10 })), 'mon,40\ntue,2\n')
  const { etag } = await h.getFile('reports', 'in/totals.csv', { raw: true })
  same(await h.getFile('reports', 'in/totals.csv', { etag, raw: true }), undefined)
  same([...(await h.zipFiles('reports', 'in')).subarray(0, 2)], [80, 75])
  const code = 'let n = 0; for await (const row of input) n += Number(row.total); return n'
  same((await h.createRun(code, { sessionId: 'reports', input: { path: 'in/totals.csv' } })).output, 42)
  await h.deleteFile('reports', 'in')
  // The connection is cut in both directions.
  await new Harness({ url: url + '/upload/typescript', key, backoff: 0 }).putFile('reports', 'ü 1.csv', table)
  same(text(await new Harness({ url: url + '/download/typescript', key, backoff: 0 }).getFile('reports', 'ü 1.csv')), table)

  const run = await h.createRun('console.log("working"); return 6 * 7', { timeout: '5s' })
  same([run.status, run.output, run.logs], ['succeeded', 42, [{ level: 'log', text: 'working' }]])
  const id = run.runId
  assert((await h.listRuns({ limit: 50 })).runs.some((r) => r.runId === id))
  same((await h.getRun(id)).output, 42)
  same((await h.getJournal(id)).records.at(-1).end.status, 'succeeded')
  same((await h.getJournal(id, { limit: 1 })).next, 1)
  same((await h.replayRun(id)).output, 42)
  same((await list(h.runEvents(id))).map((e) => e.type), ['run.log', 'run.ended'])
  const began = await h.createRun('await utils.sleep(50); return 1', { wait: '0s' })
  same((await h.waitRun(began.runId)).output, 1)
  const failed = await h.createRun('return x.y')
  same([failed.status, failed.error.kind], ['failed', 'runtime'])

  const send = 'await tools.mailer.send({to: "ann@example.com", subject: "Hello", body: "Hi"}); return 1'
  let waiting = await h.createRun(send)
  same(waiting.status, 'waiting_approval')
  const approval = waiting.approval.id
  assert((await h.listApprovals({ status: 'waiting' })).approvals.some((a) => a.id === approval))
  same((await h.getApproval(approval)).calls[0].tool, 'mailer__send')
  assert((await refused(h.approve(approval), 403, 'forbidden')).fix)
  same((await approver.deny(approval, 'not before Monday')).status, 'denied')
  same((await h.waitRun(waiting.runId)).error.kind, 'denied')
  waiting = await h.createRun(send)
  same((await approver.approve(waiting.approval.id)).status, 'approved')
  same((await h.waitRun(waiting.runId)).output, 1)

  assert((await approver.getPolicy()).rules.length)
  const to = 'pii_1e@d1.pii.invalid'
  const tested = await approver.testPolicy({ tool: 'mailer__send', args: { to }, preset: 'strict', tokens: [{ text: to, from: ['crm__get'] }] })
  same(tested.verdict.action, 'deny')
  same((await approver.checkPolicy('- {tools: mailer, action: deny}')).mistakes[0].line, 1)
  assert((await approver.simulatePolicy({ policy: '- {tools: "mailer__*", action: deny}', runs: 100 })).changed > 0)
  assert((await approver.comparePresets()).presets.length > 1)
  assert((await approver.listFlows({ by: 'server' })).runs > 0)
  same((await approver.listDoubts()).doubts, [])
  await refused(approver.settleCall(id, 1, 'done'), 409, 'conflict')

  assert((await h.listTools()).tools.some((t) => t.name === 'database__query'))
  same((await h.searchTools('run sql', { limit: 1 })).tools[0].name, 'database__query')
  same((await h.getTool('database__query')).inputSchema.type, 'object')
  assert((await h.getTypes({ server: 'database' })).includes('query(input: QueryInput)'))
  same((await h.createRun('return await tools.database.query("SELECT 40 + 2 AS answer")')).output, [{ answer: 42 }])
  const { authToken } = await h.createCapability(id)
  same(await new Harness({ url }).callTool(authToken, 'database__query', { query: 'SELECT 40 + 2 AS answer' }), [{ answer: 42 }])

  await h.putSkill('math/double.js', 'export default (n) => n * 2')
  same((await h.listSkills()).skills.map((s) => s.name), ['math/double'])
  same(await h.getSkill('math/double.js'), 'export default (n) => n * 2')
  same((await h.createRun('import double from "/skills/math/double.js"\nreturn double(21)')).output, 42)
  await h.deleteSkill('math')

  const schedule = await h.createSchedule('How many orders came in today?', { cron: '0 18 * * 1-5', timeZone: 'Europe/Berlin' })
  same((await h.getSchedule(schedule.id)).cron, '0 18 * * 1-5')
  same((await h.listSchedules()).schedules.map((s) => s.id), [schedule.id])
  await h.deleteSchedule(schedule.id)

  same((await admin.addServer({ name: 'remote-typescript', url: 'https://mcp.example.com/mcp' })).name, 'remote-typescript')
  assert((await admin.listServers()).servers.some((s) => s.name === 'remote-typescript'))
  await admin.removeServer('remote-typescript')
  await refused(h.removeServer('remote-typescript'), 403, 'forbidden')
  assert((await admin.metrics()).includes('harness_'))

  await refused(new Harness({ url, key: 'hk_wrong' }).listTasks(), 401, 'unauthorized')
  same((await refused(h.task('somebody', 'x'), 403, 'forbidden')).message, 'not allowed: the credential belongs to another user')
  await refused(h.getTask('task_1'), 404, 'not_found')
  same((await refused(h.createTask('x', { budget: { turns: -1 } }), 400, 'bad_request')).details[0].location, 'body.budget')
  const dead = new Harness({ url: 'http://127.0.0.1:9', patience: 0.1, backoff: 0.01 })
  assert((await refused(dead.health(), 0, 'unreachable')).fix.includes('harness serve'))

  const { WEBHOOK_SECRET: secret, WEBHOOK_BODY: body, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE } = process.env
  const signed = new Headers({ 'X-Harness-Timestamp': WEBHOOK_TIMESTAMP, 'X-Harness-Signature': WEBHOOK_SIGNATURE })
  same([await verifyWebhook(secret, signed, body), await verifyWebhook(secret, signed, body + ' ')], [true, false])
  same([await verifyWebhook('other', signed, body), await verifyWebhook(secret, new Headers(), body), await verifyWebhook(secret, signed, body, 0)], [false, false, false])

  const start = performance.now()
  await new Harness({ url: url + '/limited/typescript', key }).createSession({ id: 'limited' }) // the first request is refused with Retry-After: 1
  assert(performance.now() - start >= 990)
  await new Harness({ url: url + '/lost/typescript', key, backoff: 0 }).createTask('Say hello.', { sessionId: 'lost' }) // the first answer is lost
  same((await h.listTasks({ sessionId: 'lost' })).tasks.length, 1)
  await refused(new Harness({ url: url + '/lost/typescript-session', key }).createSession({ id: 'lost-answer' }), 0, 'unreachable')
}

async function stream() {
  const want = JSON.parse(readFileSync(process.env.EVENTS, 'utf8'))
  for (let cut = 0; cut < Number(process.env.CUTS); cut++) {
    const h = new Harness({ url: `${url}/cut/typescript/${cut}`, key, backoff: 0 })
    same((await list(h.taskEvents(process.env.TASK))).map((e) => [e.id, e.type, e.data]), want, `a stream cut behind byte ${cut}`)
  }
}

async function restart() {
  const h = new Harness({ url, key, backoff: 0.05 })
  const approver = new Harness({ url, key: HARNESS_APPROVER })
  const waiting = await h.createRun('await tools.mailer.send({to: "ann@example.com", subject: "Hello", body: "Hi"}); return 1')
  const task = await h.createTask('How many orders came in today?')
  const reading = list(h.taskEvents(task.id))
  console.log('ready')
  await once(process.stdin, 'data') // until the server has been killed and started again
  process.stdin.destroy()
  same((await h.waitTask(task.id)).output, { orders: 42 })
  const seen = (await reading).filter((e) => e.id)
  same(seen.map((e) => e.id), seen.map((_, i) => i + 1))
  same(seen.at(-1).type, 'task.ended')
  await approver.approve(waiting.approval.id)
  same((await h.waitRun(waiting.runId)).output, 1)
}

await { all, stream, restart }[process.argv[2]]()
console.log('ok')
