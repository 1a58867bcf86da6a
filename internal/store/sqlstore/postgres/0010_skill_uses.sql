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
