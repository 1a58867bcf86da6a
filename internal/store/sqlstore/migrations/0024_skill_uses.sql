-- How programs of users have used skills.
CREATE TABLE skill_uses (
    user      TEXT    NOT NULL,
    name      TEXT    NOT NULL,      -- path inside /skills: pdf, @ann/pdf
    runs      INTEGER NOT NULL,      -- ended runs that used it
    failed    INTEGER NOT NULL,
    last      INTEGER NOT NULL,      -- end of the latest run, in microseconds since the Unix epoch
    succeeded INTEGER,               -- end of the latest run that succeeded
    requests  BLOB    NOT NULL,      -- JSON: the latest texts of tasks whose runs succeeded, with their times, the oldest first
    asked     INTEGER,               -- time of the oldest of them
    PRIMARY KEY (user, name)
) WITHOUT ROWID;
CREATE INDEX skill_uses_last ON skill_uses (user, last);
CREATE INDEX skill_uses_asked ON skill_uses (asked) WHERE asked IS NOT NULL;

-- Programs of tasks, to notice tasks that repeat an earlier one.
CREATE TABLE task_programs (
    user    TEXT    NOT NULL,
    key     TEXT    NOT NULL,             -- hash of what the program calls, or of its text
    task    TEXT    NOT NULL,             -- id of the first task
    again   TEXT    NOT NULL DEFAULT '',  -- id of the first later task with this program
    run     TEXT    NOT NULL DEFAULT '',  -- id of the run of that one
    created INTEGER NOT NULL,             -- microseconds since the Unix epoch
    PRIMARY KEY (user, key)
) WITHOUT ROWID;
CREATE INDEX task_programs_again ON task_programs (user, again) WHERE again <> '';
CREATE INDEX task_programs_of ON task_programs (user, created);
CREATE INDEX task_programs_created ON task_programs (created);
