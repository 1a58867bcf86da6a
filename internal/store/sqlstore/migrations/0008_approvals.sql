-- What runs ask people. A run with the status waiting_approval has no owner; its last request says what it waits for.
CREATE TABLE approvals (
    num        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    run        INTEGER NOT NULL,              -- runs.num
    task       TEXT    NOT NULL,              -- tasks.id, '' for a run of no task
    user       TEXT    NOT NULL,              -- of the run
    status     TEXT    NOT NULL,
    created    INTEGER NOT NULL,              -- microseconds since the Unix epoch, as the rest
    expires    INTEGER NOT NULL,
    decided    INTEGER,
    decided_by TEXT    NOT NULL DEFAULT '',
    reason     TEXT    NOT NULL DEFAULT '',
    remember   INTEGER NOT NULL DEFAULT 0,
    due        INTEGER,                       -- when the run of no task is to go on; NULL: it has gone on to its end or its next request
    request    BLOB    NOT NULL               -- JSON: the rest
);
CREATE INDEX approvals_run ON approvals (run);
CREATE INDEX approvals_task ON approvals (task) WHERE task <> '';
CREATE INDEX approvals_user ON approvals (user, num);
CREATE INDEX approvals_status ON approvals (status, num);
CREATE INDEX approvals_due ON approvals (due) WHERE due IS NOT NULL;
CREATE INDEX approvals_decided ON approvals (decided) WHERE decided IS NOT NULL;

-- The requests of each user that wait are what a quota bounds.
ALTER TABLE owners ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
DROP TRIGGER owners_emptied;
CREATE TRIGGER owners_emptied AFTER UPDATE ON owners
    WHEN new.bytes <= 0 AND new.tasks <= 0 AND new.sessions <= 0 AND new.schedules <= 0 AND new.waiting <= 0 BEGIN
    DELETE FROM owners WHERE user = new.user;
END;
CREATE TRIGGER owners_waiting AFTER UPDATE OF waiting ON owners WHEN new.waiting <> old.waiting BEGIN
    UPDATE totals SET waiting = waiting + new.waiting - old.waiting;
END;
CREATE TRIGGER approvals_inserted AFTER INSERT ON approvals WHEN new.status = 'waiting' BEGIN
    INSERT INTO owners (user) VALUES (new.user) ON CONFLICT (user) DO NOTHING;
    UPDATE owners SET waiting = waiting + 1 WHERE user = new.user;
END;
CREATE TRIGGER approvals_decide AFTER UPDATE OF status ON approvals WHEN old.status = 'waiting' AND new.status <> 'waiting' BEGIN
    UPDATE owners SET waiting = waiting - 1 WHERE user = new.user;
END;
CREATE TRIGGER approvals_deleted AFTER DELETE ON approvals WHEN old.status = 'waiting' BEGIN
    UPDATE owners SET waiting = waiting - 1 WHERE user = old.user;
END;
