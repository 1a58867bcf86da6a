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
