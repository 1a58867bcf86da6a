-- What all users together have in the store, so that no commit adds up their rows. Triggers keep its one row.
CREATE TABLE totals (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    bytes     INTEGER NOT NULL,
    tasks     INTEGER NOT NULL,
    sessions  INTEGER NOT NULL,
    schedules INTEGER NOT NULL
);
INSERT INTO totals SELECT 1, coalesce(sum(bytes), 0), coalesce(sum(tasks), 0), coalesce(sum(sessions), 0), coalesce(sum(schedules), 0) FROM owners;
CREATE TRIGGER owners_inserted AFTER INSERT ON owners BEGIN
    UPDATE totals SET bytes = bytes + new.bytes, tasks = tasks + new.tasks, sessions = sessions + new.sessions, schedules = schedules + new.schedules;
END;
CREATE TRIGGER owners_changed AFTER UPDATE ON owners BEGIN
    UPDATE totals SET bytes = bytes + new.bytes - old.bytes, tasks = tasks + new.tasks - old.tasks,
        sessions = sessions + new.sessions - old.sessions, schedules = schedules + new.schedules - old.schedules;
END;
CREATE TRIGGER owners_deleted AFTER DELETE ON owners BEGIN
    UPDATE totals SET bytes = bytes - old.bytes, tasks = tasks - old.tasks, sessions = sessions - old.sessions, schedules = schedules - old.schedules;
END;
