-- What is stored of the skills of users beside their files: the last number of a version, the result of the last tests, and the promotion to a tool.
CREATE TABLE skills (
    user        TEXT    NOT NULL,
    name        TEXT    NOT NULL,              -- path inside /skills
    last        INTEGER NOT NULL DEFAULT 0,    -- number of the last version
    tested      TEXT    NOT NULL DEFAULT '',   -- digest of the tested content, '': never tested
    passed      INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    tested_at   INTEGER,                       -- microseconds since the Unix epoch, as all times
    promoted    TEXT    NOT NULL DEFAULT '',   -- digest of the promoted content, '': not promoted
    promoted_by TEXT    NOT NULL DEFAULT '',
    promoted_at INTEGER,
    PRIMARY KEY (user, name)
) WITHOUT ROWID;

-- The versions of skills. Their archives count against the bytes of their users.
CREATE TABLE skill_versions (
    user    TEXT    NOT NULL,
    name    TEXT    NOT NULL,                  -- path inside /skills
    num     INTEGER NOT NULL,                  -- 1, 2, ...
    digest  TEXT    NOT NULL,                  -- SHA-256 of the content
    bytes   INTEGER NOT NULL,                  -- size of files
    created INTEGER NOT NULL,
    used    INTEGER NOT NULL,                  -- when it last became the content
    author  TEXT    NOT NULL,
    origin  BLOB    NOT NULL,                  -- JSON, null for an own version
    state   TEXT    NOT NULL,                  -- kept, held, refused
    files   BLOB    NOT NULL,                  -- archive of the content
    PRIMARY KEY (user, name, num)
);
CREATE UNIQUE INDEX skill_versions_digest ON skill_versions (user, name, digest);
CREATE INDEX skill_versions_bytes ON skill_versions (user, bytes);
CREATE INDEX skill_versions_used ON skill_versions (user, name, used, num) WHERE state = 'kept';

CREATE TRIGGER skill_versions_inserted AFTER INSERT ON skill_versions BEGIN
    INSERT INTO owners (user, bytes) VALUES (new.user, new.bytes) ON CONFLICT (user) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER skill_versions_deleted AFTER DELETE ON skill_versions BEGIN
    UPDATE owners SET bytes = bytes - old.bytes WHERE user = old.user;
END;
