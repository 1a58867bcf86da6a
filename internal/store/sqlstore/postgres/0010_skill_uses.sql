-- How programs of users have used skills.
CREATE TABLE skill_uses (
    "user"    TEXT   COLLATE "C" NOT NULL,
    name      TEXT   COLLATE "C" NOT NULL,      -- path inside /skills: pdf, @ann/pdf
    runs      BIGINT NOT NULL,                  -- ended runs that used it
    failed    BIGINT NOT NULL,
    last      BIGINT NOT NULL,                  -- end of the latest run, in microseconds since the Unix epoch
    succeeded BIGINT,                           -- end of the latest run that succeeded
    requests  BYTEA  NOT NULL,                  -- JSON: the latest texts of tasks whose runs succeeded, with their times, the oldest first
    asked     BIGINT,                           -- time of the oldest of them
    PRIMARY KEY ("user", name)
);
CREATE INDEX skill_uses_last ON skill_uses ("user", last);
CREATE INDEX skill_uses_asked ON skill_uses (asked) WHERE asked IS NOT NULL;

-- Programs of tasks, to notice tasks that repeat an earlier one.
CREATE TABLE task_programs (
    "user"  TEXT   COLLATE "C" NOT NULL,
    key     TEXT   COLLATE "C" NOT NULL,             -- hash of what the program calls, or of its text
    task    TEXT   COLLATE "C" NOT NULL,             -- id of the first task
    again   TEXT   COLLATE "C" NOT NULL DEFAULT '',  -- id of the first later task with this program
    run     TEXT   COLLATE "C" NOT NULL DEFAULT '',  -- id of the run of that one
    created BIGINT NOT NULL,                         -- microseconds since the Unix epoch
    PRIMARY KEY ("user", key)
);
CREATE INDEX task_programs_again ON task_programs ("user", again) WHERE again <> '';
CREATE INDEX task_programs_of ON task_programs ("user", created);
CREATE INDEX task_programs_created ON task_programs (created);
