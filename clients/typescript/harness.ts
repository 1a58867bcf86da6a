// Client of the HTTP API of mcp-code-exec-harness: fetch and nothing else, for Node.js from 20, Deno, Bun and browsers.
// types.d.ts is generated from the server's OpenAPI document.
import type * as t from './types.js'

export type * from './types.js'

/** JSON of any form. */
export type Json = any // eslint-disable-line

/** What a stream adds to an event: id is 0 for events that are not stored, such as delta. docs/EVENTS.md describes the types. */
type Numbered<E> = E & { id: number }

/** An event of a task. Its type says what data is; a later server may have more types. */
export type TaskEvent = Numbered<t.TaskEvent>

/** An event of a run. */
export type RunEvent = Numbered<t.RunEvent>

export type Event = TaskEvent | RunEvent

/** An event as it is read. */
interface Read {
  id: number
  type: string
  data: Json
}

/** Settings of a client; times are in seconds. */
export interface Options {
  /** Address of the server; by default http://127.0.0.1:3000. */
  url?: string
  /** API key (hk_…). */
  key?: string
  /** How long a request, or a stream without a new event, is tried again before it fails; by default 60. */
  patience?: number
  /** First pause between tries; it doubles up to 2. By default 0.2. */
  backoff?: number
  /** How long a stream may be silent before it is opened again; by default 60. The server sends something every 15 s. */
  silence?: number
}

/** Parameters of lists. */
export type Query = Record<string, string | number | boolean | undefined>

/** The body of a request, without the fields that have an argument of their own. */
type More<T, Own extends keyof T = never> = Partial<Omit<T, Own>> & { idempotencyKey?: string }

const fixes: Record<number, string> = {
  0: 'start harness serve, and check the url of the client',
  401: 'make a key with harness keys create, and give it to the client',
  403: 'use a key of this user that has the role the message names: harness keys create --user NAME --role ROLE',
  404: 'check the id and the key: a key sees what belongs to its user',
  429: 'wait as long as retryAfter says, or raise server.rateLimit',
}

/** A request that failed. */
export class HarnessError extends Error {
  /** HTTP status, or 0 if there was no answer. */
  readonly status: number
  /** A word for programs, such as "not_found" or "unreachable". */
  readonly code: string
  /** What to do about it; empty if the message says that too. */
  readonly fix: string
  /** What is wrong with single fields. */
  readonly details: t.Detail[]
  /** How many seconds the server asks to wait. */
  readonly retryAfter?: number

  constructor(status: number, message: string, problem: { code?: string; title?: string; fix?: string; errors?: t.Detail[] } = {}, retryAfter?: number) {
    super(message)
    this.name = 'HarnessError'
    this.status = status
    this.code = problem.code ?? (status === 0 ? 'unreachable' : (problem.title || (status === 429 ? 'Too Many Requests' : 'error')).toLowerCase().replaceAll(' ', '_'))
    this.fix = problem.fix ?? fixes[status] ?? ''
    this.details = problem.errors ?? []
    this.retryAfter = retryAfter
  }
}

interface Sending {
  body?: unknown
  query?: Query
  headers?: Record<string, string>
  /** Whether the request changes nothing a second time. By default all are but POST without an Idempotency-Key. */
  safe?: boolean
  signal?: AbortSignal
}

const q = encodeURIComponent
const paths = (path: string): string => path.split('/').filter(Boolean).map(q).join('/')
const fileOf = (session: string, path: string): string => `/v1/sessions/${q(session)}/files` + (paths(path) && `/${paths(path)}`)
const sleep = (seconds: number): Promise<void> => new Promise((done) => setTimeout(done, seconds * 1000))
const now = (): number => performance.now() / 1000

/** Tries decides whether and when a request is tried again. */
class Tries {
  private until: number
  private n = 0
  constructor(private patience: number, private backoff: number) {
    this.until = now() + patience
  }

  progress(): void {
    this.until = now() + this.patience
    this.n = 0
  }

  /** Waits before the next try, or throws the error if there is to be none. */
  async next(error: unknown, safe: boolean): Promise<void> {
    let pause = Math.min(this.backoff * 2 ** this.n++, 2) * (0.5 + Math.random() / 2)
    if (error instanceof HarnessError && error.status !== 0) {
      if (error.status !== 429 && !(safe && [502, 503, 504].includes(error.status))) throw error
      pause = error.retryAfter ?? pause
    } else if (!safe && (error as Json)?.cause?.code !== 'ECONNREFUSED') {
      throw failure(error)
    }
    if (now() + pause > this.until) throw failure(error)
    await sleep(pause)
  }
}

function failure(error: unknown): unknown {
  if (error instanceof HarnessError || (error as Json)?.name === 'AbortError') return error
  const cause = (error as Json)?.cause
  return new HarnessError(0, `no answer of the harness: ${cause?.message || cause?.code || (error as Error)?.message || error}`)
}

/** A server and the key to use. It holds no connection and no state. */
export class Harness {
  private url: string
  private key: string
  private patience: number
  private backoff: number
  private silence: number

  constructor(options: Options = {}) {
    this.url = (options.url ?? 'http://127.0.0.1:3000').replace(/\/+$/, '')
    this.key = options.key ?? ''
    this.patience = options.patience ?? 60
    this.backoff = options.backoff ?? 0.2
    this.silence = options.silence ?? 60
  }

  /** Sends one request. */
  private async open(method: string, path: string, s: Sending = {}): Promise<Response> {
    const headers: Record<string, string> = { ...s.headers }
    if (this.key) headers['Authorization'] = `Bearer ${this.key}`
    const bytes = s.body instanceof Uint8Array
    if (s.body !== undefined) headers['Content-Type'] = bytes ? 'application/octet-stream' : 'application/json'
    const query = Object.entries(s.query ?? {}).filter(([, value]) => value !== undefined).map(([name, value]) => `${q(name)}=${q(String(value))}`).join('&')
    const body = s.body === undefined ? undefined : bytes ? s.body as Json : JSON.stringify(s.body)
    const answer = await fetch(this.url + path + (query && `?${query}`), { method, headers, body, signal: s.signal })
    if (answer.ok || answer.status === 304) return answer
    const problem: Json = await answer.json().catch(() => ({}))
    const after = answer.headers.get('Retry-After')
    throw new HarnessError(answer.status, problem.detail || answer.statusText, problem, after && /^\d+$/.test(after) ? Number(after) : undefined)
  }

  /** Sends a request until it is answered, and reads the answer. */
  private async send<T>(method: string, path: string, s: Sending, read: (answer: Response) => Promise<T>): Promise<T> {
    const tries = new Tries(this.patience, this.backoff)
    const safe = s.safe ?? (method !== 'POST' || s.headers?.['Idempotency-Key'] !== undefined)
    for (;;) {
      try {
        return await read(await this.open(method, path, s))
      } catch (error) {
        await tries.next(error, safe)
      }
    }
  }

  private json<T = Json>(method: string, path: string, s: Sending = {}): Promise<T> {
    return this.send(method, path, s, async (answer) => {
      const text = await answer.text()
      return (text ? JSON.parse(text) : undefined) as T
    })
  }

  private text(path: string, query?: Query): Promise<string> {
    return this.send('GET', path, { query }, (answer) => answer.text())
  }

  /** Sends a POST with an Idempotency-Key. */
  private post<T>(path: string, { idempotencyKey, ...body }: Record<string, unknown> & { idempotencyKey?: string }): Promise<T> {
    return this.json(`POST`, path, { body, headers: { 'Idempotency-Key': idempotencyKey ?? crypto.randomUUID() } })
  }

  /** The events of a stream, each stored one once, through lost connections, until the event last. A path is asked for `appears` seconds if it is unknown. */
  private async *events<E extends Event>(path: string, after: number, last: E['type'], appears = 0): AsyncGenerator<E> {
    const tries = new Tries(this.patience, this.backoff)
    const known = now() + appears
    for (;;) {
      const stop = new AbortController()
      let failed: unknown = new Error('the stream ended early')
      try {
        const answer = await this.open('GET', path, { headers: after ? { 'Last-Event-ID': String(after) } : {}, signal: stop.signal })
        if (answer.status === 204) return // it has ended, and there is nothing more
        for await (const event of parse(answer, stop, this.silence)) {
          if (event.id) {
            if (event.id <= after) continue
            after = event.id
            tries.progress()
          }
          yield event as E
          if (event.type === last) return
        }
      } catch (error) {
        failed = stop.signal.aborted ? new Error(`the stream was silent for ${this.silence} s`) : error
      } finally {
        stop.abort()
      }
      if (failed instanceof HarnessError && failed.status === 404 && now() < known) await sleep(this.backoff || 0.05)
      else await tries.next(failed, true)
    }
  }

  // Tasks.

  health(): Promise<{ status: string; timestamp: string }> {
    return this.json('GET', '/health')
  }

  /** Executes a task and returns its answer. A task that failed is an answer too, with error. */
  task(userId: string, task: string, more: More<t.TaskRequest, 'userId' | 'task'> = {}): Promise<t.OriginalAnswer> {
    return this.post('/task', { userId, task, ...more })
  }

  /** The answer of a task as it is written. It is not continued after a lost connection: use taskEvents for that. */
  async *taskStream(userId: string, task: string, more: object = {}): AsyncGenerator<string> {
    const stop = new AbortController()
    try {
      const answer = await this.open('POST', '/task/stream', { body: { userId, task, ...more }, signal: stop.signal })
      for await (const { data } of parse(answer, stop, 0)) {
        if (data === '[DONE]') return
        if (data.error) throw new HarnessError(500, data.error)
        yield data.chunk
      }
      throw new Error('the stream ended early')
    } catch (error) {
      throw failure(error)
    } finally {
      stop.abort()
    }
  }

  /** Begins a task in the background. */
  createTask(task: string, more: More<t.TaskRequest, 'task'> = {}): Promise<t.Task> {
    return this.post('/v1/tasks', { task, ...more })
  }

  listTasks(query: Query = {}): Promise<t.TaskList> {
    return this.json('GET', '/v1/tasks', { query })
  }

  getTask(id: string): Promise<t.Task> {
    return this.json('GET', `/v1/tasks/${q(id)}`)
  }

  cancelTask(id: string): Promise<t.Task> {
    return this.json('POST', `/v1/tasks/${q(id)}/cancel`, { safe: true }) // a second one changes nothing
  }

  /** The events of a task behind one until it has ended, each stored event once; it goes on after lost connections. */
  taskEvents(id: string, after = 0): AsyncGenerator<TaskEvent> {
    return this.events(`/v1/tasks/${q(id)}/events`, after, 'task.ended')
  }

  /** Waits for the end of a task, also through a restart of the server. */
  async waitTask(id: string): Promise<t.Task> {
    for await (const _ of this.taskEvents(id)); // eslint-disable-line
    return this.getTask(id)
  }

  // Runs.

  /** Executes a program and returns its outcome, or what it waits for. With wait: '0s' the run goes on: see waitRun. */
  createRun(code: string, more: More<t.NewRun, 'code'> = {}): Promise<t.RunOutcome> {
    return this.post('/v1/runs', { code, ...more })
  }

  listRuns(query: Query = {}): Promise<t.RunList> {
    return this.json('GET', '/v1/runs', { query })
  }

  getRun(id: string): Promise<t.RunDetails> {
    return this.json('GET', `/v1/runs/${q(id)}`)
  }

  getJournal(id: string, query: Query = {}): Promise<t.Journal> {
    return this.json('GET', `/v1/runs/${q(id)}/journal`, { query })
  }

  replayRun(id: string, query: { force?: boolean } = {}): Promise<t.RunOutcome> {
    return this.json('POST', `/v1/runs/${q(id)}/replay`, { query, safe: true }) // it calls no server
  }

  /** The events of a run, as taskEvents. A run that createRun did not wait for is recorded up to a second later, so this asks for an unknown run for 5 s. */
  runEvents(id: string, after = 0): AsyncGenerator<RunEvent> {
    return this.events(`/v1/runs/${q(id)}/events`, after, 'run.ended', 5)
  }

  /** Waits for the end of a run, also through approvals. */
  async waitRun(id: string): Promise<t.RunDetails> {
    for await (const _ of this.runEvents(id)); // eslint-disable-line
    return this.getRun(id)
  }

  /** Makes the token with which callTool calls tools in the name of a run. */
  createCapability(runId: string): Promise<t.RunCapability> {
    return this.json('POST', `/v1/runs/${q(runId)}/capability`)
  }

  callTool(capability: string, toolName: string, input: unknown): Promise<Json> {
    return this.json('POST', '/internal/mcp-call', { body: { authToken: capability, toolName, input } })
  }

  listDoubts(query: Query = {}): Promise<t.DoubtList> {
    return this.json('GET', '/v1/doubts', { query })
  }

  /** Says whether a write in doubt was done. */
  settleCall(runId: string, call: number, verdict: 'done' | 'not_done', note = ''): Promise<Json> {
    return this.json('POST', `/v1/runs/${q(runId)}/calls/${call}/settle`, { body: { verdict, note }, safe: true })
  }

  // Approvals and policy.

  listApprovals(query: Query = {}): Promise<t.ApprovalList> {
    return this.json('GET', '/v1/approvals', { query })
  }

  getApproval(id: string): Promise<t.ApprovalRequest> {
    return this.json('GET', `/v1/approvals/${q(id)}`)
  }

  approve(id: string, more: { remember?: boolean } = {}): Promise<t.ApprovalRequest> {
    return this.json('POST', `/v1/approvals/${q(id)}`, { body: { decision: 'approve', ...more } })
  }

  deny(id: string, reason = ''): Promise<t.ApprovalRequest> {
    return this.json('POST', `/v1/approvals/${q(id)}`, { body: { decision: 'deny', reason } })
  }

  getPolicy(): Promise<t.PolicyRules> {
    return this.json('GET', '/v1/policy')
  }

  testPolicy(body: t.PolicyTrial): Promise<t.SimulationTested> {
    return this.json('POST', '/v1/policy/test', { body, safe: true })
  }

  checkPolicy(policy: string): Promise<t.PolicyCheck> {
    return this.json('POST', '/v1/policy/check', { body: { policy }, safe: true })
  }

  simulatePolicy(body: t.SimulatePolicyRequest): Promise<t.SimulationChanges> {
    return this.json('POST', '/v1/policy/simulation', { body, safe: true })
  }

  comparePresets(query: Query = {}): Promise<t.SimulationComparison> {
    return this.json('GET', '/v1/policy/presets', { query })
  }

  listFlows(query: Query = {}): Promise<t.SimulationFlows> {
    return this.json('GET', '/v1/policy/flows', { query })
  }

  // Sessions and files.

  createSession(body: Partial<t.NewSession> = {}): Promise<t.TaskSession> {
    return this.json('POST', '/v1/sessions', { body })
  }

  listSessions(query: Query = {}): Promise<t.SessionList> {
    return this.json('GET', '/v1/sessions', { query })
  }

  getSession(id: string): Promise<t.TaskSession> {
    return this.json('GET', `/v1/sessions/${q(id)}`)
  }

  deleteSession(id: string): Promise<void> {
    return this.json('DELETE', `/v1/sessions/${q(id)}`)
  }

  listFiles(session: string, folder = ''): Promise<t.FileList> {
    return this.json('GET', fileOf(session, folder))
  }

  zipFiles(session: string, folder = ''): Promise<Uint8Array> {
    return this.send('GET', fileOf(session, folder), { query: { format: 'zip' } }, async (answer) => new Uint8Array(await answer.arrayBuffer()))
  }

  /** Reads a file from an offset on; undefined if it still has the given ETag. A download that was cut off goes on where it ended. */
  async getFile(session: string, path: string, { start = 0, etag = '', raw = false } = {}): Promise<{ data: Uint8Array; etag: string } | undefined> {
    const tries = new Tries(this.patience, this.backoff)
    let parts: Uint8Array[] = []
    let size = 0
    let version = ''
    for (;;) {
      const headers: Record<string, string> = {}
      if (etag && !version) headers['If-None-Match'] = etag
      if (start + size) headers['Range'] = `bytes=${start + size}-`
      if (version) headers['If-Range'] = version
      try {
        const answer = await this.open('GET', fileOf(session, path), { headers, query: { raw: raw || undefined } })
        if (answer.status === 304) return undefined
        if (answer.status === 200) [parts, size] = [[], 0] // the whole file, because it has changed
        version = answer.headers.get('ETag') ?? ''
        for await (const part of chunks(answer)) {
          parts.push(part)
          size += part.length
        }
        return { data: join(parts, size), etag: version }
      } catch (error) {
        await tries.next(error, true)
      }
    }
  }

  /** Writes a file. An upload that was cut off goes on where it ended. */
  async putFile(session: string, path: string, content: Uint8Array | string): Promise<void> {
    const data = typeof content === 'string' ? new TextEncoder().encode(content) : content
    const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', data as Json))
    const digest = { 'Repr-Digest': `sha-256=:${btoa(String.fromCharCode(...sum))}:` }
    const tries = new Tries(this.patience, this.backoff)
    for (let sent = 0; ;) {
      try {
        const headers = sent ? { ...digest, 'Content-Range': `bytes ${sent}-${data.length - 1}/${data.length}` } : digest
        await this.open('PUT', fileOf(session, path), { body: data.subarray(sent), headers })
        return
      } catch (error) {
        await tries.next(error, true)
      }
      if (!data.length) continue
      const asking = { body: new Uint8Array(), headers: { ...digest, 'Content-Range': `bytes */${data.length}` } }
      const answer = await this.send('PUT', fileOf(session, path), asking, async (answer) => answer)
      if (answer.status !== 202) return // all of it has come
      sent = Number(answer.headers.get('Upload-Offset'))
    }
  }

  deleteFile(session: string, path: string): Promise<void> {
    return this.json('DELETE', fileOf(session, path))
  }

  // Tools and skills.

  listTools(query: Query = {}): Promise<t.ToolList> {
    return this.json('GET', '/v1/tools', { query })
  }

  searchTools(words: string, query: Query = {}): Promise<t.ToolHits> {
    return this.json('GET', '/v1/tools/search', { query: { q: words, ...query } })
  }

  getTool(name: string): Promise<t.CatalogDetails> {
    return this.json('GET', `/v1/tools/${q(name)}`)
  }

  /** The TypeScript declarations of tools. */
  getTypes(query: Query = {}): Promise<string> {
    return this.text('/v1/tools.d.ts', query)
  }

  listSkills(query: Query = {}): Promise<t.SkillList> {
    return this.json('GET', '/v1/skills', { query })
  }

  getSkill(path: string): Promise<string> {
    return this.text(`/v1/skills/${paths(path)}`)
  }

  putSkill(path: string, source: string): Promise<void> {
    return this.json('PUT', `/v1/skills/${paths(path)}`, { body: new TextEncoder().encode(source) })
  }

  deleteSkill(path: string): Promise<void> {
    return this.json('DELETE', `/v1/skills/${paths(path)}`)
  }

  // Schedules, servers and metrics.

  createSchedule(task: string, more: More<t.NewSchedule, 'task'> = {}): Promise<t.TaskSchedule> {
    return this.post('/v1/schedules', { task, ...more })
  }

  listSchedules(query: Query = {}): Promise<t.ScheduleList> {
    return this.json('GET', '/v1/schedules', { query })
  }

  getSchedule(id: string): Promise<t.TaskSchedule> {
    return this.json('GET', `/v1/schedules/${q(id)}`)
  }

  deleteSchedule(id: string): Promise<void> {
    return this.json('DELETE', `/v1/schedules/${q(id)}`)
  }

  listServers(): Promise<t.ServerList> {
    return this.json('GET', '/v1/servers')
  }

  addServer(body: t.NewServer): Promise<t.McpclientStatus> {
    return this.json('POST', '/v1/servers', { body })
  }

  removeServer(name: string): Promise<void> {
    return this.json('DELETE', `/v1/servers/${q(name)}`)
  }

  metrics(): Promise<string> {
    return this.text('/metrics')
  }
}

/** Whether a webhook comes from a harness with this secret (server.webhooks.secret) and is at most `within` seconds old. */
export async function verifyWebhook(secret: string, headers: { get(name: string): string | null }, body: string | Uint8Array, within = 300): Promise<boolean> {
  const utf8 = new TextEncoder()
  const stamp = headers.get('X-Harness-Timestamp') ?? ''
  const signature = /^sha256=((?:[0-9a-f]{2}){32})$/.exec(headers.get('X-Harness-Signature') ?? '')?.[1]
  if (!signature || !/^\d+$/.test(stamp) || Math.abs(Date.now() / 1000 - Number(stamp)) >= within) return false
  const head = utf8.encode(stamp + '.')
  const bytes = typeof body === 'string' ? utf8.encode(body) : body
  const key = await crypto.subtle.importKey('raw', utf8.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
  const given = Uint8Array.from(signature.match(/../g)!, (pair) => parseInt(pair, 16))
  return crypto.subtle.verify('HMAC', key, given, join([head, bytes], head.length + bytes.length) as Json)
}

/** The pieces of a body. */
async function* chunks(answer: Response): AsyncGenerator<Uint8Array> {
  if (!answer.body) return
  const reader = answer.body.getReader()
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value
}

function join(parts: Uint8Array[], size: number): Uint8Array {
  const all = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** The events of a stream of server-sent events that have come whole. After `silence` seconds without a byte it stops the request; 0 is without a limit. */
async function* parse(answer: Response, stop: AbortController, silence: number): AsyncGenerator<Read> {
  const decoder = new TextDecoder()
  let text = ''
  let timer: ReturnType<typeof setTimeout> | undefined
  const wait = (): void => {
    clearTimeout(timer)
    if (silence) timer = setTimeout(() => stop.abort(), silence * 1000)
  }
  try {
    wait()
    for await (const part of chunks(answer)) {
      wait()
      const blocks = (text + decoder.decode(part, { stream: true })).split('\n\n')
      text = blocks.pop()!
      for (const block of blocks) {
        const event: Read = { id: 0, type: 'message', data: undefined }
        for (const line of block.split('\n')) {
          const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line)!
          if (name === 'id') event.id = Number(value)
          if (name === 'event') event.type = value
          if (name === 'data') event.data = value === '[DONE]' ? value : JSON.parse(value)
        }
        if (event.data !== undefined) yield event
      }
    }
  } finally {
    clearTimeout(timer)
  }
}
