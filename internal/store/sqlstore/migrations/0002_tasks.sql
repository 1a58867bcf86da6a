-- Times are microseconds since the Unix epoch. num keeps the rows of what belongs to a task small; its order is that of
-- creation.

CREATE TABLE sessions (
    num     INTEGER PRIMARY KEY,
    id      TEXT    NOT NULL UNIQUE,
    user    TEXT    NOT NULL,
    created INTEGER NOT NULL,
    used    INTEGER NOT NULL,
    expires INTEGER,                        -- NULL: never
    deleted INTEGER NOT NULL DEFAULT 0      -- 1: what belongs to it is being deleted, it is gone for readers
);
CREATE INDEX sessions_user ON sessions (user);
CREATE INDEX sessions_expires ON sessions (expires) WHERE deleted = 0;
CREATE INDEX sessions_deleted ON sessions (num) WHERE deleted = 1;

CREATE TABLE tasks (
    num       INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    session   INTEGER NOT NULL,             -- sessions.num
    user      TEXT    NOT NULL,             -- of the session
    status    TEXT    NOT NULL,
    owner     TEXT    NOT NULL DEFAULT '',  -- the process that works on it, by its lock file
    cancel    INTEGER NOT NULL DEFAULT 0,   -- 1: it is to end
    cached    INTEGER NOT NULL DEFAULT 0,   -- 1: its answer is another one's
    purged    INTEGER NOT NULL DEFAULT 0,   -- 1: what belongs to it is being deleted, it is gone for readers
    cache_key TEXT    NOT NULL,
    created   INTEGER NOT NULL,
    run_at    INTEGER,
    started   INTEGER,
    ended     INTEGER,                      -- NULL while the task is unfinished
    request   BLOB    NOT NULL,             -- JSON: the rest of what was asked for
    outcome   BLOB    NOT NULL              -- JSON: the rest of what came of it
);
CREATE INDEX tasks_user ON tasks (user, purged);
CREATE INDEX tasks_status ON tasks (status, purged);
CREATE INDEX tasks_session ON tasks (session, purged);
CREATE INDEX tasks_unfinished ON tasks (session) WHERE ended IS NULL;
CREATE INDEX tasks_cancel ON tasks (owner) WHERE cancel = 1 AND ended IS NULL;
CREATE INDEX tasks_ended ON tasks (ended) WHERE purged = 0;
CREATE INDEX tasks_cache ON tasks (user, cache_key, ended) WHERE cache_key <> '' AND status = 'succeeded' AND cached = 0;
CREATE INDEX tasks_purged ON tasks (num) WHERE purged = 1;

CREATE TABLE steps (
    task INTEGER NOT NULL,                  -- tasks.num
    seq  INTEGER NOT NULL,                  -- 1, 2, ... without gaps
    data BLOB    NOT NULL,                  -- JSON
    PRIMARY KEY (task, seq)
) WITHOUT ROWID;

CREATE TABLE events (
    task INTEGER NOT NULL,                  -- tasks.num
    id   INTEGER NOT NULL,                  -- 1, 2, ... without gaps
    type TEXT    NOT NULL,
    time INTEGER NOT NULL,
    key  TEXT    NOT NULL,                  -- of its kind there is one in a task, if it is not empty
    data BLOB    NOT NULL,                  -- JSON
    PRIMARY KEY (task, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX events_key ON events (task, key) WHERE key <> '';

CREATE TABLE idempotency (
    user    TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    hash    TEXT    NOT NULL,               -- of the request
    task    INTEGER NOT NULL,               -- tasks.num
    created INTEGER NOT NULL,
    PRIMARY KEY (user, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_task ON idempotency (task);
CREATE INDEX idempotency_created ON idempotency (created);

CREATE TABLE webhooks (
    num      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    task     INTEGER NOT NULL,              -- tasks.num
    url      TEXT    NOT NULL,
    body     BLOB    NOT NULL,
    created  INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due      INTEGER,                       -- NULL: it was delivered, or given up
    reason   TEXT    NOT NULL DEFAULT ''    -- why the last try failed
);
CREATE INDEX webhooks_task ON webhooks (task);
CREATE INDEX webhooks_due ON webhooks (due) WHERE due IS NOT NULL;

CREATE TABLE schedules (
    num     INTEGER PRIMARY KEY,
    id      TEXT    NOT NULL UNIQUE,
    user    TEXT    NOT NULL,
    session TEXT    NOT NULL,               -- sessions.id, '' for one for each task
    cron    TEXT    NOT NULL,
    zone    TEXT    NOT NULL,
    created INTEGER NOT NULL,
    next    INTEGER,                        -- NULL: it has ended
    last    INTEGER,
    request BLOB    NOT NULL                -- JSON, as that of tasks
);
CREATE INDEX schedules_user ON schedules (user);
