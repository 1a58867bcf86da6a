-- Session ids are unique for each user. A session's row says which of its tasks is in work and when the next one is due,
-- so that at most one of its tasks is in work.
CREATE TABLE sessions_new (
    num     INTEGER PRIMARY KEY,
    user    TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    created INTEGER NOT NULL,
    used    INTEGER NOT NULL,
    expires INTEGER,                        -- NULL: never
    closed  INTEGER,                        -- NULL: open; else it is gone for readers and is being deleted
    working INTEGER NOT NULL DEFAULT 0,     -- tasks.num of the task in work, 0 for none
    due     INTEGER,                        -- of the next waiting task; NULL: none waits, or one is in work
    ready   INTEGER NOT NULL DEFAULT 0,     -- 1: due has come
    UNIQUE (user, id)
);
INSERT INTO sessions_new (num, user, id, created, used, expires, closed)
    SELECT num, user, id, created, used, expires, CASE WHEN deleted = 1 OR expires = -1 THEN used END FROM sessions;
DROP TABLE sessions;
ALTER TABLE sessions_new RENAME TO sessions;
CREATE INDEX sessions_id ON sessions (id);
CREATE INDEX sessions_user ON sessions (user, num);
CREATE INDEX sessions_expires ON sessions (expires) WHERE closed IS NULL AND expires IS NOT NULL;
CREATE INDEX sessions_closed ON sessions (num) WHERE closed IS NOT NULL;
CREATE INDEX sessions_ready ON sessions (user, due) WHERE ready = 1;
CREATE INDEX sessions_due ON sessions (due) WHERE ready = 0 AND due IS NOT NULL;

-- Runs of no task that use a session, by the process that executes them.
CREATE TABLE session_uses (
    session INTEGER NOT NULL,               -- sessions.num
    owner   TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (session, owner)
) WITHOUT ROWID;

ALTER TABLE tasks ADD COLUMN due INTEGER NOT NULL DEFAULT 0;   -- not to be worked before
ALTER TABLE tasks ADD COLUMN fence INTEGER NOT NULL DEFAULT 0; -- grows with every claim; commits must name it
ALTER TABLE tasks ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- of the request, steps, events and outcome
ALTER TABLE tasks ADD COLUMN context BLOB;                     -- JSON; NULL: none, or it is part of the request
UPDATE tasks SET due = coalesce(run_at, created), bytes = length(request) + length(outcome)
    + coalesce((SELECT sum(length(data)) FROM steps WHERE task = tasks.num), 0)
    + coalesce((SELECT sum(length(data)) FROM events WHERE task = tasks.num), 0);
UPDATE tasks SET owner = '' WHERE ended IS NULL;
CREATE INDEX tasks_waiting ON tasks (session, started IS NULL, due, num) WHERE ended IS NULL AND owner = '';
CREATE INDEX tasks_owned ON tasks (owner) WHERE ended IS NULL AND owner <> '';
UPDATE sessions SET due = (SELECT due FROM tasks WHERE session = sessions.num AND ended IS NULL AND owner = ''
    ORDER BY started IS NULL, due, num LIMIT 1) WHERE closed IS NULL;

ALTER TABLE runs ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;  -- as that of tasks
ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;  -- of its journal, blobs included
UPDATE runs SET bytes = coalesce((SELECT sum(length(data)) FROM journal WHERE run = runs.num), 0)
    + coalesce((SELECT sum(length(b.data)) FROM blob_refs r JOIN blobs b ON b.id = r.blob WHERE r.run = runs.num), 0);

-- Webhooks to deliver. The body is made of the task. A row is deleted when its webhook was delivered or given up.
CREATE TABLE webhooks_new (
    num      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    task     INTEGER NOT NULL,              -- tasks.num
    user     TEXT    NOT NULL,              -- of the task
    url      TEXT    NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due      INTEGER NOT NULL
);
INSERT INTO webhooks_new (num, id, task, user, url, attempts, due)
    SELECT w.num, w.id, w.task, t.user, w.url, w.attempts, w.due FROM webhooks w JOIN tasks t ON t.num = w.task WHERE w.due IS NOT NULL;
DROP TABLE webhooks;
ALTER TABLE webhooks_new RENAME TO webhooks;
CREATE INDEX webhooks_task ON webhooks (task);
CREATE INDEX webhooks_user ON webhooks (user, due);
CREATE INDEX webhooks_due ON webhooks (due);

DELETE FROM schedules WHERE next IS NULL;
CREATE INDEX schedules_next ON schedules (next);

-- What each user has in the store: what quotas bound. Triggers keep it.
CREATE TABLE owners (
    user      TEXT    PRIMARY KEY,
    bytes     INTEGER NOT NULL DEFAULT 0,   -- of journals and tasks
    tasks     INTEGER NOT NULL DEFAULT 0,   -- unfinished ones
    sessions  INTEGER NOT NULL DEFAULT 0,
    schedules INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO owners (user, bytes, tasks, sessions, schedules)
    SELECT user, sum(bytes), sum(tasks), sum(sessions), sum(schedules) FROM (
        SELECT user, bytes, 0 AS tasks, 0 AS sessions, 0 AS schedules FROM runs
        UNION ALL SELECT user, bytes, ended IS NULL, 0, 0 FROM tasks
        UNION ALL SELECT user, 0, 0, 1, 0 FROM sessions
        UNION ALL SELECT user, 0, 0, 0, 1 FROM schedules) GROUP BY user;
CREATE TRIGGER runs_inserted AFTER INSERT ON runs BEGIN
    INSERT INTO owners (user, bytes) VALUES (new.user, new.bytes) ON CONFLICT (user) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER runs_grown AFTER UPDATE OF bytes ON runs BEGIN
    UPDATE owners SET bytes = bytes + new.bytes - old.bytes WHERE user = new.user;
END;
CREATE TRIGGER runs_deleted AFTER DELETE ON runs BEGIN
    UPDATE owners SET bytes = bytes - old.bytes WHERE user = old.user;
END;
CREATE TRIGGER tasks_inserted AFTER INSERT ON tasks BEGIN
    INSERT INTO owners (user, bytes, tasks) VALUES (new.user, new.bytes, new.ended IS NULL)
        ON CONFLICT (user) DO UPDATE SET bytes = bytes + excluded.bytes, tasks = tasks + excluded.tasks;
END;
CREATE TRIGGER tasks_changed AFTER UPDATE OF bytes, ended ON tasks BEGIN
    UPDATE owners SET bytes = bytes + new.bytes - old.bytes, tasks = tasks + (new.ended IS NULL) - (old.ended IS NULL)
        WHERE user = new.user;
END;
CREATE TRIGGER tasks_deleted AFTER DELETE ON tasks BEGIN
    UPDATE owners SET bytes = bytes - old.bytes, tasks = tasks - (old.ended IS NULL) WHERE user = old.user;
END;
CREATE TRIGGER sessions_inserted AFTER INSERT ON sessions BEGIN
    INSERT INTO owners (user, sessions) VALUES (new.user, 1) ON CONFLICT (user) DO UPDATE SET sessions = sessions + 1;
END;
CREATE TRIGGER sessions_deleted AFTER DELETE ON sessions BEGIN
    UPDATE owners SET sessions = sessions - 1 WHERE user = old.user;
END;
CREATE TRIGGER schedules_inserted AFTER INSERT ON schedules BEGIN
    INSERT INTO owners (user, schedules) VALUES (new.user, 1) ON CONFLICT (user) DO UPDATE SET schedules = schedules + 1;
END;
CREATE TRIGGER schedules_deleted AFTER DELETE ON schedules BEGIN
    UPDATE owners SET schedules = schedules - 1 WHERE user = old.user;
END;
CREATE TRIGGER owners_emptied AFTER UPDATE ON owners
    WHEN new.bytes <= 0 AND new.tasks <= 0 AND new.sessions <= 0 AND new.schedules <= 0 BEGIN
    DELETE FROM owners WHERE user = new.user;
END;
