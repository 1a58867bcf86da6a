import type * as t from './types.js';
export type * from './types.js';
/** JSON of any form. */
export type Json = any;
/** What a stream adds to an event: id is 0 for events that are not stored, such as delta. docs/EVENTS.md describes the types. */
type Numbered<E> = E & {
    id: number;
};
/** An event of a task. Its type says what data is; a later server may have more types. */
export type TaskEvent = Numbered<t.TaskEvent>;
/** An event of a run. */
export type RunEvent = Numbered<t.RunEvent>;
export type Event = TaskEvent | RunEvent;
/** Settings of a client; times are in seconds. */
export interface Options {
    /** Address of the server; by default http://127.0.0.1:3000. */
    url?: string;
    /** API key (hk_…). */
    key?: string;
    /** How long a request, or a stream without a new event, is tried again before it fails; by default 60. */
    patience?: number;
    /** First pause between tries; it doubles up to 2. By default 0.2. */
    backoff?: number;
    /** How long a stream may be silent before it is opened again; by default 60. The server sends something every 15 s. */
    silence?: number;
}
/** Parameters of lists. */
export type Query = Record<string, string | number | boolean | undefined>;
/** The body of a request, without the fields that have an argument of their own. */
type More<T, Own extends keyof T = never> = Partial<Omit<T, Own>> & {
    idempotencyKey?: string;
};
/** A request that failed. */
export declare class HarnessError extends Error {
    /** HTTP status, or 0 if there was no answer. */
    readonly status: number;
    /** A word for programs, such as "not_found" or "unreachable". */
    readonly code: string;
    /** What to do about it; empty if the message says that too. */
    readonly fix: string;
    /** What is wrong with single fields. */
    readonly details: t.Detail[];
    /** How many seconds the server asks to wait. */
    readonly retryAfter?: number;
    constructor(status: number, message: string, problem?: {
        code?: string;
        title?: string;
        fix?: string;
        errors?: t.Detail[];
    }, retryAfter?: number);
}
/** A server and the key to use. It holds no connection and no state. */
export declare class Harness {
    private url;
    private key;
    private patience;
    private backoff;
    private silence;
    constructor(options?: Options);
    /** Sends one request. */
    private open;
    /** Sends a request until it is answered, and reads the answer. */
    private send;
    private json;
    private text;
    /** Sends a POST with an Idempotency-Key. */
    private post;
    /** The events of a stream, each stored one once, through lost connections, until the event last. A path is asked for `appears` seconds if it is unknown. */
    private events;
    health(): Promise<{
        status: string;
        timestamp: string;
    }>;
    /** Executes a task and returns its answer. A task that failed is an answer too, with error. */
    task(userId: string, task: string, more?: More<t.TaskRequest, 'userId' | 'task'>): Promise<t.OriginalAnswer>;
    /** The answer of a task as it is written. It is not continued after a lost connection: use taskEvents for that. */
    taskStream(userId: string, task: string, more?: object): AsyncGenerator<string>;
    /** Begins a task in the background. */
    createTask(task: string, more?: More<t.TaskRequest, 'task'>): Promise<t.Task>;
    listTasks(query?: Query): Promise<t.TaskList>;
    getTask(id: string): Promise<t.Task>;
    cancelTask(id: string): Promise<t.Task>;
    /** The events of a task behind one until it has ended, each stored event once; it goes on after lost connections. */
    taskEvents(id: string, after?: number): AsyncGenerator<TaskEvent>;
    /** Waits for the end of a task, also through a restart of the server. */
    waitTask(id: string): Promise<t.Task>;
    /** Executes a program and returns its outcome, or what it waits for. With wait: '0s' the run goes on: see waitRun. */
    createRun(code: string, more?: More<t.NewRun, 'code'>): Promise<t.RunOutcome>;
    listRuns(query?: Query): Promise<t.RunList>;
    getRun(id: string): Promise<t.RunDetails>;
    getJournal(id: string, query?: Query): Promise<t.Journal>;
    replayRun(id: string, query?: {
        force?: boolean;
    }): Promise<t.RunOutcome>;
    /** The events of a run, as taskEvents. A run that createRun did not wait for is recorded up to a second later, so this asks for an unknown run for 5 s. */
    runEvents(id: string, after?: number): AsyncGenerator<RunEvent>;
    /** Waits for the end of a run, also through approvals. */
    waitRun(id: string): Promise<t.RunDetails>;
    /** Makes the token with which callTool calls tools in the name of a run. */
    createCapability(runId: string): Promise<t.RunCapability>;
    callTool(capability: string, toolName: string, input: unknown): Promise<Json>;
    listDoubts(query?: Query): Promise<t.DoubtList>;
    /** Says whether a write in doubt was done. */
    settleCall(runId: string, call: number, verdict: 'done' | 'not_done', note?: string): Promise<Json>;
    listApprovals(query?: Query): Promise<t.ApprovalList>;
    getApproval(id: string): Promise<t.ApprovalRequest>;
    approve(id: string, more?: {
        remember?: boolean;
    }): Promise<t.ApprovalRequest>;
    deny(id: string, reason?: string): Promise<t.ApprovalRequest>;
    getPolicy(): Promise<t.PolicyRules>;
    testPolicy(body: t.PolicyTrial): Promise<t.SimulationTested>;
    checkPolicy(policy: string): Promise<t.PolicyCheck>;
    simulatePolicy(body: t.SimulatePolicyRequest): Promise<t.SimulationChanges>;
    comparePresets(query?: Query): Promise<t.SimulationComparison>;
    listFlows(query?: Query): Promise<t.SimulationFlows>;
    createSession(body?: Partial<t.NewSession>): Promise<t.TaskSession>;
    listSessions(query?: Query): Promise<t.SessionList>;
    getSession(id: string): Promise<t.TaskSession>;
    deleteSession(id: string): Promise<void>;
    listFiles(session: string, folder?: string): Promise<t.FileList>;
    zipFiles(session: string, folder?: string): Promise<Uint8Array>;
    /** Reads a file from an offset on; undefined if it still has the given ETag. A download that was cut off goes on where it ended. */
    getFile(session: string, path: string, { start, etag, raw }?: {
        start?: number | undefined;
        etag?: string | undefined;
        raw?: boolean | undefined;
    }): Promise<{
        data: Uint8Array;
        etag: string;
    } | undefined>;
    /** Writes a file. An upload that was cut off goes on where it ended. */
    putFile(session: string, path: string, content: Uint8Array | string): Promise<void>;
    deleteFile(session: string, path: string): Promise<void>;
    listTools(query?: Query): Promise<t.ToolList>;
    searchTools(words: string, query?: Query): Promise<t.ToolHits>;
    getTool(name: string): Promise<t.CatalogDetails>;
    /** The TypeScript declarations of tools. */
    getTypes(query?: Query): Promise<string>;
    listSkills(query?: Query): Promise<t.SkillList>;
    getSkill(path: string): Promise<string>;
    putSkill(path: string, source: string): Promise<void>;
    deleteSkill(path: string): Promise<void>;
    createSchedule(task: string, more?: More<t.NewSchedule, 'task'>): Promise<t.TaskSchedule>;
    listSchedules(query?: Query): Promise<t.ScheduleList>;
    getSchedule(id: string): Promise<t.TaskSchedule>;
    deleteSchedule(id: string): Promise<void>;
    listServers(): Promise<t.ServerList>;
    addServer(body: t.NewServer): Promise<t.McpclientStatus>;
    removeServer(name: string): Promise<void>;
    metrics(): Promise<string>;
}
/** Whether a webhook comes from a harness with this secret (server.webhooks.secret) and is at most `within` seconds old. */
export declare function verifyWebhook(secret: string, headers: {
    get(name: string): string | null;
}, body: string | Uint8Array, within?: number): Promise<boolean>;
