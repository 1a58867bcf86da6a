// Types of the HTTP API, generated from its OpenAPI document: go test ./internal/cli -run TestClientsTypeScript -update

export interface ApprovalBinding {
  /** Keyed hash of the arguments that are to be sent. */
  args: string
  /** Hash of the tool's definition. */
  definition: string
}

export interface ApprovalCall {
  /** With tokens in place of personal data. Absent where they are large; the run's journal has them. */
  args?: any
  argsBytes: number
  binding: ApprovalBinding
  call: number
  /** What has changed since the call was approved before. */
  changed?: string
  /** How texts in the arguments differ from what the run has read before, or from an old text that the call has as well: the first 20. Not in lists. */
  compared?: ApprovalComparison[]
  /** What the tool's server says that it does. */
  description?: string
  destructive: boolean
  idempotent: boolean
  openWorld: boolean
  readOnly: boolean
  /** Why policy asks. */
  reason?: string
  /** Where tokens in the arguments are replaced by values before the call is made: the first 100 places. Not in lists. */
  replaced?: ApprovalReplacement[]
  tool: string
  /** Why it cannot be told where tokens are replaced: their values cannot be read. The call fails then, unless they can be read where it is made. */
  unread?: string
  /** Where values in the arguments come from, at the paths that rules of the policy name with from: the first 100. */
  values?: ApprovalValue[]
}

export interface ApprovalComparison {
  /** The number of that call. */
  call?: number
  /** Unified difference by lines, with three lines of context. Empty without a problem: the texts are equal. */
  diff?: string
  /** Where the earlier text is in the arguments of the same call. */
  old?: string
  /** Where the text is in the arguments. */
  path?: string
  /** Why there is no difference, or only a part. */
  problem?: string
  /** A later call of the run that may have changed it. */
  since?: number
  /** What the run has read the earlier text with: the latest read whose arguments this call has as well. */
  tool?: string
}

export interface ApprovalEffect {
  call: number
  kind: string
  name: string
  state: string
}

export interface ApprovalList {
  approvals: ApprovalRequest[]
  /** The cursor of the next page; absent on the last one. */
  next?: string
}

export interface ApprovalReplacement {
  /** The string has more than the token. */
  embedded: boolean
  /** Language of the text around an embedded token, for which the value is escaped (pii.inCode). */
  language?: 'sql' | 'shell' | 'html' | 'url' | 'csv' | 'code'
  /** The string with the token; (key) stands behind the path of a member whose key has it. */
  path: string
  token: string
  /** What the server gets; for callers who act for the user of the request. */
  value?: string
  /** Of an embedded token whose value is not escaped and has a quote, a backtick, a backslash, a semicolon, a line break or ${. */
  warning?: string
  /** The value as the server gets it, where it is escaped for the language of the text around it; for callers who act for the user of the request. */
  written?: string
}

export interface ApprovalRequest {
  /** What waits. */
  calls: ApprovalCall[]
  createdAt: string
  decidedAt?: string
  decidedBy?: string
  /** What the run has changed so far, or may have changed. */
  done?: ApprovalEffect[]
  expiresAt: string
  id: string
  /** Tool calls that the run has made so far, the waiting ones included. */
  made: number
  /** Why it was denied. */
  reason?: string
  /** Later calls of the same tools in the same task, or run, are not asked about. */
  remember?: boolean
  runId: string
  sessionId?: string
  status: 'waiting' | 'approved' | 'denied' | 'expired' | 'closed'
  taskId?: string
  userId: string
}

export interface ApprovalValue {
  /** In words. */
  from: string
  /** Path as the rule has it. */
  path: string
}

export interface Budget {
  /** US dollars, where the model's price is known. */
  costUsd?: number
  /** Programs. */
  runs?: number
  /** Model tokens, in and out. */
  tokens?: number
  /** Responses of the model. */
  turns?: number
  /** Time, waiting included. */
  wall?: number | string
}

export interface CatalogAnnotations {
  destructiveHint?: boolean
  idempotentHint?: boolean
  openWorldHint?: boolean
  readOnlyHint?: boolean
  title?: string
}

export interface CatalogDetails {
  annotations?: CatalogAnnotations
  call: string
  description: string
  /** Arguments that say where a call sends something: what rules with destinations: default are about. */
  destinations?: Destination[]
  inputSchema: any
  instructions?: string
  learned?: CatalogLearned
  name: string
  outputSchema?: any
  schema: any
  schemaProblem?: string
  signature: string
  title?: string
  typescript: string
}

export interface CatalogHit {
  description: string
  function: string
  name: string
  server: string
  signature: string
}

export interface CatalogLearned {
  drift?: string[]
  schema: any
}

export interface ConfineSandbox {
  /** It has the network of the machine; false: none, loopback included. */
  network: boolean
  /** Files and directories it reads and executes, besides those of the system. */
  read?: string[]
  /** Files and directories it reads and writes. */
  write?: string[]
}

export interface Destination {
  because: string
  kind: string
  path: string
}

export interface Detail {
  location?: string
  message: string
}

export interface DoubtList {
  doubts: RunsDoubt[]
  /** The cursor of the next page; absent on the last one. */
  next?: string
}

export interface File {
  /** It is a folder. */
  dir?: boolean
  modified: string
  /** Relative to the session's /workspace, or to /skills. */
  path: string
  /** In bytes, with tokens; 0 for a folder. */
  size: number
}

export interface FileList {
  files: File[]
}

export interface Journal {
  /** The cursor of the next page; absent behind the last record of a run that has ended. */
  next?: number
  records: JournalRecord[]
}

export interface JournalAnswer {
  beside?: any
  delivery?: number
  error?: any
  exact?: boolean
  kept?: number
  n: number
  notes?: string[]
  now: number
  skill?: boolean
  tokens?: Record<string, any>
  value?: any
}

export interface JournalCall {
  args?: any
  kind: string
  n: number
  name: string
  sync?: boolean
}

export interface JournalEnd {
  calls: number
  durationUs: number
  error?: any
  output?: any
  status: string
  time: number
}

export interface JournalInput {
  format: string
  from?: string
  name?: string
  path?: string
  sha256: string
  size: number
}

export interface JournalIntent {
  approval?: string
  before?: any
  conn?: number
  key: string
  n: number
  retry?: boolean
  time: number
}

export interface JournalLog {
  level: string
  text: string
}

export interface JournalRecord {
  answer?: JournalAnswer
  call?: JournalCall
  end?: JournalEnd
  intent?: JournalIntent
  log?: JournalLog
  seq: number
  start?: JournalStart
}

export interface JournalSettlement {
  note?: string
  settledAt?: string
  settledBy?: string
  /** Whether the write was done, as a person found out; open: nobody has said anything. */
  verdict: 'open' | 'done' | 'not_done'
}

export interface JournalStart {
  engine: string
  env?: Record<string, any>
  file?: string
  input?: JournalInput
  limits?: any
  map?: string
  prelude: string
  principal?: string
  program?: any
  roles?: string[]
  run: string
  seed: string
  session?: string
  source: string
  tier: string
  time: number
  tokens?: Record<string, any>
  user?: string
  warnings?: string[]
}

export interface McpclientInfo {
  name?: string
  title?: string
  version?: string
}

export interface McpclientStatus {
  cached?: boolean
  conn?: number
  /** Definitions that are held for review. */
  held?: number
  instructions?: string
  name: string
  /** Each user logs in; the state is that of the user who asks. */
  perUser?: boolean
  pid?: number
  protocol?: string
  reason?: string
  restarts?: number
  retryAt?: string
  /** What a server that is started here may reach; absent: what the user of the harness may. */
  sandbox?: ConfineSandbox
  /** Scopes that the next login asks for, because a call needed them. */
  scopes?: string[]
  serverInfo: McpclientInfo
  since: string
  state: string
  stderrTail?: string
  tools: number
  transport: string
}

export interface ModelUsage {
  cacheWrite?: number
  cachedInput?: number
  estimated?: boolean
  input: number
  output: number
  reasoning?: number
}

export interface NewInput {
  /** By default the name or the beginning of the file says. */
  format?: 'json' | 'ndjson' | 'csv' | 'lines' | 'text'
  /** A file in the session's /workspace. */
  path: string
}

export interface NewRun {
  /** JavaScript or TypeScript. */
  code: string
  /** What the program works on, as its global input. */
  input?: NewInput
  /** Tier to run in: wasm, process or docker. A tier that is weaker than the configured one is refused. */
  sandbox?: string
  /** The session whose /workspace the run uses. */
  sessionId?: string
  /** How long the program may compute; at most sandbox.timeout, which is the default. */
  timeout?: number | string
  /** The user; a key that is bound to a user may leave it out. */
  userId?: string
  /** How long to wait for the end of the run: after it, and once the run is stored, the answer is that of a running run, and the run goes on. By default until it has ended. */
  wait?: number | string
}

export interface NewSchedule {
  budget?: Budget
  /** The answer of an equal task of the same user is reused if it is not older. */
  cacheSeconds?: number
  /** Gets a signed notification when the task ends (task.ended), and when it waits for an approval (approval_requested). Personal data are tokens, unless server.webhooks.values is set. */
  callbackUrl?: string
  /** More information for the model, any JSON. */
  context?: any
  /** Minute, hour, day, month, weekday; or runAt for a single time. */
  cron?: string
  /** A model other than the configured one. */
  model?: string
  /** The task is not worked before this time. */
  runAt?: string
  /** The session that the task continues. */
  sessionId?: string
  /** The task, in words. */
  task: string
  /** IANA name; UTC when left out. */
  timeZone?: string
  /** The user of the task; a key that is bound to a user may leave it out. */
  userId?: string
}

export interface NewServer {
  args?: string[]
  command?: string
  env?: Record<string, any>
  headers?: Record<string, any>
  name: string
  /** An OpenAPI 3 document, whose operations become tools: its http or https address, its text in JSON or YAML, or the document itself. */
  openapi?: string | Record<string, any>
  /** Credentials by the names of the document's security schemes; of basic, user:password. */
  security?: Record<string, any>
  transport?: 'http' | 'sse' | 'stdio' | 'openapi'
  /** Address of the server; with openapi, of the service, by default the one that the document says. */
  url?: string
}

export interface NewSession {
  /** Letters, digits, '-', '_' and '.'; chosen when left out. */
  id?: string
  /** The user; a key that is bound to a user may leave it out. */
  userId?: string
}

export interface OriginalAnswer {
  /** Why the task failed. */
  error?: string
  /** Console lines of its programs. */
  logs: string[]
  /** A sentence on how the task ended. */
  message: string
  /** The value of the last program; empty if it failed, absent if none ran. */
  output?: any
  /** Ids of its programs' runs. */
  runs: string[]
  sessionId: string
  taskId: string
  /** The model's answer. */
  text?: string
  usage: TaskUsage
}

export interface PolicyCheck {
  /** Empty: it is a policy. */
  mistakes: SimulationMistake[]
  /** Its rules in words, with those of its preset; empty where it has mistakes. */
  rules: PolicyRule[]
}

export interface PolicyRule {
  action: 'allow' | 'ask' | 'deny'
  /** The preset that has it; absent: the policy itself. */
  preset?: string
  /** Its place in the policy, or in its preset. The first rule that fits a call decides. */
  rule: number
  text: string
}

export interface PolicyRules {
  /** In the order in which they are tried. A call that none fits is allowed. */
  rules: PolicyRule[]
  /** Rules that lower the limits of some callers, in words. */
  runs: string[]
  /** The section policy, as another one may begin. */
  yaml: string
}

export interface PolicyTrial {
  /** Arguments of the call. Tokens in them are judged. */
  args?: Record<string, any>
  /** The section policy of a configuration, in YAML or JSON: a list of rules, or a mapping with preset, rules and runs. */
  policy?: string
  /** A preset alone, instead of policy. */
  preset?: 'open' | 'guarded' | 'careful' | 'strict'
  /** Roles of who calls; absent: they are not known, which counts against the call. */
  roles?: ('user' | 'approver' | 'admin' | 'anonymous')[]
  /** Tier that the calling program runs in; absent: it is not known. */
  sandbox?: 'wasm' | 'process' | 'docker'
  /** Tokens in the arguments and where they came from. One that is not named is of unknown origin. */
  tokens?: SimulationSaid[]
  tool: string
  /** Who calls; by default the user of the caller, or local. */
  userId?: string
  /** Strings and numbers in the arguments and where they came from. One that is not named is of unknown origin. */
  values?: SimulationSaid[]
}

export interface PolicyValue {
  from: string[]
  more?: boolean
  parts?: string[]
  path: string
}

export interface PolicyVerdict {
  action: string
  origin?: string
  preset?: string
  reason: string
  rule: number
  token?: string
  values?: PolicyValue[]
}

export interface RunCapability {
  /** What /internal/mcp-call takes. */
  authToken: string
  /** server.tokenExpiration from now. */
  expiresAt: string
}

export interface RunDetails {
  /** What a run that waits asks people. */
  approval?: ApprovalRequest
  /** Tool calls. */
  calls: number
  code: string
  durationMs: number
  /** What a run that did not succeed changed, or may have changed. */
  effects?: RunEffect[]
  endedAt?: string
  error?: RunError
  logs: JournalLog[]
  output: any
  runId: string
  sandbox: string
  sessionId?: string
  startedAt: string
  status: 'running' | 'succeeded' | 'failed' | 'cancelled' | 'waiting_approval'
  userId: string
  /** What in the program does not exist: tools, arguments and fields of answers, found before it ran. */
  warnings?: string[]
}

export interface RunEffect {
  call: number
  kind: string
  name: string
  state: string
}

export interface RunError {
  column?: number
  data?: any
  file?: string
  hint?: string
  kind: string
  line?: number
  message: string
  name?: string
  source?: string
  stack?: string
  tool?: string
}

export type RunEvent = RunEventRunBehind | RunEventRunCall | RunEventRunEnded | RunEventRunLog | RunEventRunStatus

export interface RunEventRunBehind {
  data: RunsBehindLine
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.behind'
}

export interface RunEventRunCall {
  data: RunsCallLine
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.call'
}

export interface RunEventRunEnded {
  data: RunsStatusLine
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.ended'
}

export interface RunEventRunLog {
  data: RunsLogLine
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.log'
}

export interface RunEventRunStatus {
  data: RunsStatusLine
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.status'
}

export interface RunLine {
  calls: number
  durationMs: number
  endedAt?: string
  /** Its kind. */
  error?: string
  runId: string
  sandbox: string
  sessionId?: string
  startedAt: string
  status: string
  userId: string
}

export interface RunList {
  /** The cursor of the next page; absent on the last one. */
  next?: string
  runs: RunLine[]
}

export interface RunOutcome {
  /** What a run that waits asks people. */
  approval?: ApprovalRequest
  /** Tool calls. */
  calls: number
  durationMs: number
  /** What a run that did not succeed changed, or may have changed. */
  effects?: RunEffect[]
  error?: RunError
  logs: JournalLog[]
  output: any
  runId: string
  sandbox: string
  status: 'running' | 'succeeded' | 'failed' | 'cancelled' | 'waiting_approval'
  /** What in the program does not exist: tools, arguments and fields of answers, found before it ran. */
  warnings?: string[]
}

export interface RunsBehindLine {
  /** Number of events that it missed; they follow. */
  events: number
}

export interface RunsCallLine {
  /** When the program got the answer; absent: it has none. */
  answeredAt?: string
  /** The request by which a person approved it. */
  approvalId?: string
  argsBytes: number
  /** Its place in the journal. */
  at: string
  /** When the program made it: the clock of the run, which moves with each answer. */
  beganAt: string
  /** Its number in the run. */
  call: number
  /** A write that was sent and has no answer. */
  doubt?: boolean
  /** The kind of its error. */
  error?: string
  /** The server was not asked: a rule of policy keeps the answer of a call of this time. */
  keptAt?: string
  kind: string
  message?: string
  name: string
  /** What the program was told beside the answer. */
  notes?: string[]
  /** Of a write: when it was about to be sent. */
  sentAt?: string
  /** Of a write that stays in doubt: what a person said about it. */
  settlement?: JournalSettlement
  /** The program waited for it without doing anything else. */
  sync?: boolean
  valueBytes: number
}

export interface RunsDoubt {
  /** Absent where they are large; GET /v1/runs/{id}/calls/{n} has them. */
  args?: any
  argsBytes: number
  /** Its number in the run. */
  call: number
  kind: string
  name: string
  runId: string
  /** When it was about to be sent. */
  sentAt: string
  sessionId?: string
  userId: string
}

export interface RunsLogLine {
  level: string
  /** Its number in the run, from 1. */
  line: number
  text: string
}

export interface RunsStatusLine {
  /** The kind of its error. */
  error?: string
  status: string
}

export interface ScheduleList {
  schedules: TaskSchedule[]
}

export interface ServerList {
  servers: McpclientStatus[]
}

export interface SessionList {
  /** The cursor of the next page; absent on the last one. */
  next?: string
  sessions: TaskSession[]
}

export interface SimulatePolicyRequest {
  /** The section policy of a configuration, in YAML or JSON: a list of rules, or a mapping with preset, rules and runs. */
  policy?: string
  /** A preset alone, instead of policy. */
  preset?: 'open' | 'guarded' | 'careful' | 'strict'
  /** The newest so many. */
  runs?: number
  /** Only those that began since then. */
  since?: string
  /** Only those of this user; by default those of the caller's user, or of all users for a caller who may act for all. */
  userId?: string
}

export interface SimulationChange {
  /** Its number in the run. */
  call: number
  /** The catalog has the tool. */
  known: boolean
  /** Verdict of the policy in effect. */
  now: PolicyVerdict
  run: string
  /** Verdict of the other policy. */
  then: PolicyVerdict
  tool: string
  /** Tokens whose origin the run does not show, and paths of values whose origin its session does not: in truth the call may be decided otherwise. */
  unknownOrigins: string[]
}

export interface SimulationChanges {
  /** Calls of tools and other requests to servers in them. */
  calls: number
  /** How many calls are decided differently. */
  changed: number
  /** The calls, the newest run first. */
  changes: SimulationChange[]
  /** The same, by decision. */
  kinds: SimulationKind[]
  /** Runs that were read. */
  runs: number
  /** The same, by tool and decision, the most frequent first. */
  tools: SimulationToolChange[]
  /** There are recorded calls that were not looked at; unread says which. */
  truncated: boolean
  /** What was not looked at. */
  unread: SimulationUnread[]
}

export interface SimulationComparison {
  /** Calls of tools and other requests to servers in them. */
  calls: number
  /** The preset in effect. */
  inEffect: string
  /** How many further tools there are. */
  moreTools: number
  /** The least strict first. */
  presets: SimulationPresetTotal[]
  /** Runs that were read. */
  runs: number
  /** Tools of the catalog and of the recorded calls, those with the most calls first. */
  tools: SimulationToolPresets[]
  /** There are recorded calls that were not looked at; unread says which. */
  truncated: boolean
  /** What was not looked at. */
  unread: SimulationUnread[]
}

export interface SimulationFlow {
  allow: number
  ask: number
  /** The latest such call. */
  call: number
  deny: number
  /** Who said the values: a tool or a server, user; or code (only the text of the program has them), computed, or unknown. */
  from: string
  /** The run of the latest such call. */
  run: string
  /** The tool, or the server, that was called. */
  to: string
}

export interface SimulationFlows {
  /** Calls of tools and other requests to servers in them. */
  calls: number
  /** Those of the most calls first. */
  flows: SimulationFlow[]
  /** How many further ones there are. */
  moreFlows: number
  /** Runs that were read. */
  runs: number
  /** There are recorded calls that were not looked at; unread says which. */
  truncated: boolean
  /** What was not looked at. */
  unread: SimulationUnread[]
  /** Calls of which no value was looked at: those without arguments, or with short texts, numbers of up to five digits and words such as true only. */
  withoutValues: number
}

export interface SimulationKind {
  calls: number
  from: 'allow' | 'ask' | 'deny'
  to: 'allow' | 'ask' | 'deny'
}

export interface SimulationMistake {
  /** In characters, from 1; 0: the whole text is meant. */
  column: number
  key?: string
  /** From 1; 0: the whole text is meant. */
  line: number
  /** What is wrong, and what to do. */
  message: string
}

export interface SimulationPresetTotal {
  allow: number
  ask: number
  deny: number
  preset: 'open' | 'guarded' | 'careful' | 'strict'
}

export interface SimulationSaid {
  /** Full names of tools, or other origins such as task and user; absent: that is not known. */
  from?: string[]
  text: string
}

export interface SimulationTested {
  /** Arguments that say where the call sends something. */
  destinations: Destination[]
  destructive: boolean
  idempotent: boolean
  /** Of the call itself, and of each origin of each token. The strictest is the verdict. */
  judgements: PolicyVerdict[]
  /** The catalog has it. One that it does not have is judged as one whose server claims nothing. */
  known: boolean
  /** Limits of runs that rules lower for the caller. */
  limits: Record<string, any>
  openWorld: boolean
  readOnly: boolean
  tool: string
  verdict: PolicyVerdict
  /** What is probably not meant in the rule that decides. */
  warnings?: string[]
}

export interface SimulationToolChange {
  calls: number
  from: 'allow' | 'ask' | 'deny'
  to: 'allow' | 'ask' | 'deny'
  tool: string
}

export interface SimulationToolDecision {
  allow: number
  ask: number
  deny: number
  /** What it decides of a call without arguments, and so without personal data and destinations. */
  plain: 'allow' | 'ask' | 'deny'
  preset: 'open' | 'guarded' | 'careful' | 'strict'
}

export interface SimulationToolPresets {
  /** Recorded calls. */
  calls: number
  /** The catalog has it. */
  known: boolean
  /** In the order of presets. */
  presets: SimulationToolDecision[]
  tool: string
}

export interface SimulationUnread {
  /** A call of it; absent: all. */
  call?: number
  reason: string
  /** A run; absent: several. */
  run?: string
}

export interface SkillList {
  skills: SkillsSkill[]
}

export interface SkillsSkill {
  allowedTools?: string[]
  bytes: number
  description: string
  exports?: string[]
  files?: string[]
  input?: any
  kind: string
  license?: string
  metadata?: Record<string, any>
  name: string
  path: string
  problem?: string
  tags?: string[]
  title?: string
  version?: string
  warnings?: string[]
}

export interface Task {
  budget?: TaskBudget
  cached?: boolean
  context?: any
  createdAt: string
  endedAt?: string
  error?: TaskError
  id: string
  logs: string[]
  message?: string
  model?: string
  output?: any
  /** The earlier task whose program this one has repeated. */
  repeats?: TaskRepeat
  runAt?: string
  runs: string[]
  sessionId: string
  startedAt?: string
  status: 'queued' | 'running' | 'waiting_approval' | 'succeeded' | 'failed' | 'cancelled'
  task: string
  text?: string
  usage: TaskUsage
  userId: string
}

export interface TaskAnswerData {
  /** Size of the answer as JSON. */
  bytes: number
  /** Why it failed: kind and message, or a text with the beginning of a long one. */
  error?: any
  /** The number of the call. */
  n: number
  ok: boolean
  runId: string
}

export interface TaskApprovalDecidedData {
  approvalId: string
  decision: 'approved' | 'denied' | 'expired'
  reason: string
  remember: boolean
}

export interface TaskApprovalRequestedData {
  approvalId: string
  calls: TaskWaitingCall[]
  expiresAt: string
  runId: string
}

export interface TaskBudget {
  costUsd?: number
  runs?: number
  tokens?: number
  turns?: number
  wall?: string
}

export interface TaskCallData {
  /** JSON, or a text with the beginning of a long one. */
  args: any
  kind: string
  /** Its number in the run, from 1. */
  n: number
  name: string
  runId: string
}

export interface TaskDeltaData {
  /** Name of the tool that input is for. */
  call?: string
  callId?: string
  /** A piece of the input of the call. */
  input?: string
  /** Why something takes longer. */
  notice?: string
  /** Takes back all pieces of this turn. */
  reset?: boolean
  text?: string
}

export interface TaskDirect {
  context: number
  definitions: number
  estimated: boolean
  input: number
  intermediate: number
  output: number
}

export interface TaskError {
  kind: string
  message: string
}

export type TaskEvent = TaskEventApprovalDecided | TaskEventApprovalRequested | TaskEventDelta | TaskEventNote | TaskEventRunAnswer | TaskEventRunCall | TaskEventRunEnded | TaskEventRunLog | TaskEventRunProgress | TaskEventRunStarted | TaskEventTaskEnded | TaskEventTaskQueued | TaskEventTaskStarted | TaskEventTurn

export interface TaskEventApprovalDecided {
  data: TaskApprovalDecidedData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'approval_decided'
}

export interface TaskEventApprovalRequested {
  data: TaskApprovalRequestedData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'approval_requested'
}

export interface TaskEventDelta {
  data: TaskDeltaData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'delta'
}

export interface TaskEventNote {
  data: TaskNoteData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'note'
}

export interface TaskEventRunAnswer {
  data: TaskAnswerData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.answer'
}

export interface TaskEventRunCall {
  data: TaskCallData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.call'
}

export interface TaskEventRunEnded {
  data: TaskRunEndedData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.ended'
}

export interface TaskEventRunLog {
  data: TaskLogData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.log'
}

export interface TaskEventRunProgress {
  data: TaskProgressData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.progress'
}

export interface TaskEventRunStarted {
  data: TaskRunStartedData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'run.started'
}

export interface TaskEventTaskEnded {
  data: Task
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'task.ended'
}

export interface TaskEventTaskQueued {
  data: TaskQueuedData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'task.queued'
}

export interface TaskEventTaskStarted {
  data: TaskStartedData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'task.started'
}

export interface TaskEventTurn {
  data: TaskTurnData
  /** Its number in the stream; absent of an event that is not stored. */
  id?: number
  /** Absent over SSE. */
  time?: string
  type: 'turn'
}

export interface TaskList {
  /** The cursor of the next page; absent on the last one. */
  next?: string
  /** Without context and logs, which GET /v1/tasks/{id} has. */
  tasks: Task[]
}

export interface TaskLogData {
  level: 'log' | 'info' | 'warn' | 'error' | 'debug'
  runId: string
  text: string
}

export interface TaskNoteData {
  text: string
}

export interface TaskProgressData {
  /** The number of the call. */
  n: number
  progress: number
  runId: string
  /** 0 where it is not known. */
  total: number
}

export interface TaskQueuedData {
  id: string
  /** When work on it begins; no time: at once. */
  runAt: any
  sessionId: string
}

export interface TaskRepeat {
  run: string
  task: string
}

export interface TaskRequest {
  budget?: Budget
  /** The answer of an equal task of the same user is reused if it is not older. */
  cacheSeconds?: number
  /** Gets a signed notification when the task ends (task.ended), and when it waits for an approval (approval_requested). Personal data are tokens, unless server.webhooks.values is set. */
  callbackUrl?: string
  /** More information for the model, any JSON. */
  context?: any
  /** A model other than the configured one. */
  model?: string
  /** The task is not worked before this time. */
  runAt?: string
  /** The session that the task continues. */
  sessionId?: string
  /** The task, in words. */
  task: string
  /** The user of the task; a key that is bound to a user may leave it out. */
  userId?: string
}

export interface TaskRunEndedData {
  error?: TaskError
  /** JSON, or a text with the beginning of a long one. */
  output: any
  runId: string
  status: 'succeeded' | 'failed' | 'cancelled'
}

export interface TaskRunStartedData {
  code: string
  runId: string
}

export interface TaskSchedule {
  budget?: TaskBudget
  callbackUrl?: string
  context?: any
  createdAt: string
  cron?: string
  id: string
  last?: string
  model?: string
  next?: string
  sessionId?: string
  task: string
  timeZone?: string
  userId: string
}

export interface TaskSession {
  createdAt: string
  expiresAt: string
  id: string
  tasks: number
  usedAt: string
  userId: string
}

export interface TaskStartedData {
  id: string
}

export interface TaskTurnCall {
  id: string
  /** JSON, or a text with the beginning of a long one. */
  input: any
  name: string
}

export interface TaskTurnData {
  calls: TaskTurnCall[]
  /** A number; none where the price of the model is not known. */
  costUsd: any
  text: string
  /** Its number, from 1. */
  turn: number
  usage: ModelUsage
}

export interface TaskUsage {
  calls: number
  costUsd?: number
  direct?: TaskDirect
  model?: string
  runs: number
  tokens: ModelUsage
  turns: number
}

export interface TaskWaitingCall {
  /** JSON, or a text with the beginning of a long one. */
  args: any
  /** Its number in the run. */
  n: number
  tool: string
}

export interface ToolHits {
  tools: CatalogHit[]
}

export interface ToolLine {
  /** How a program calls it. */
  call: string
  description: string
  name: string
  server: string
}

export interface ToolList {
  tools: ToolLine[]
}
