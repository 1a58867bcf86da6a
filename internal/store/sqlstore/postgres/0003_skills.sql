-- What is stored of the skills of users beside their files: the last number of a version, the result of the last tests, and the promotion to a tool.
CREATE TABLE skills (
    "user"      TEXT   COLLATE "C" NOT NULL,
    name        TEXT   COLLATE "C" NOT NULL,             -- path inside /skills
    last        BIGINT NOT NULL DEFAULT 0,               -- number of the last version
    tested      TEXT   COLLATE "C" NOT NULL DEFAULT '',  -- digest of the tested content, '': never tested
    passed      BIGINT NOT NULL DEFAULT 0,
    failed      BIGINT NOT NULL DEFAULT 0,
    tested_at   BIGINT,                                  -- microseconds since the Unix epoch, as all times
    promoted    TEXT   COLLATE "C" NOT NULL DEFAULT '',  -- digest of the promoted content, '': not promoted
    promoted_by TEXT   COLLATE "C" NOT NULL DEFAULT '',
    promoted_at BIGINT,
    PRIMARY KEY ("user", name)
);

-- The versions of skills. Their archives count against the bytes of their users.
CREATE TABLE skill_versions (
    "user"  TEXT   COLLATE "C" NOT NULL,
    name    TEXT   COLLATE "C" NOT NULL,      -- path inside /skills
    num     BIGINT NOT NULL,                  -- 1, 2, ...
    digest  TEXT   COLLATE "C" NOT NULL,      -- SHA-256 of the content
    bytes   BIGINT NOT NULL,                  -- size of files
    created BIGINT NOT NULL,
    used    BIGINT NOT NULL,                  -- when it last became the content
    author  TEXT   COLLATE "C" NOT NULL,
    origin  BYTEA  NOT NULL,                  -- JSON, null for an own version
    state   TEXT   COLLATE "C" NOT NULL,      -- kept, held, refused
    files   BYTEA  NOT NULL,                  -- archive of the content
    PRIMARY KEY ("user", name, num)
);
CREATE UNIQUE INDEX skill_versions_digest ON skill_versions ("user", name, digest);
CREATE INDEX skill_versions_bytes ON skill_versions ("user", bytes);
CREATE INDEX skill_versions_used ON skill_versions ("user", name, used, num) WHERE state = 'kept';

CREATE FUNCTION count_skill_versions() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM count_owner(new."user", new.bytes, 0, 0, 0, 0);
    ELSE
        PERFORM count_owner(old."user", -old.bytes, 0, 0, 0, 0);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER skill_versions_inserted AFTER INSERT ON skill_versions FOR EACH ROW EXECUTE FUNCTION count_skill_versions();
CREATE TRIGGER skill_versions_deleted AFTER DELETE ON skill_versions FOR EACH ROW EXECUTE FUNCTION count_skill_versions();
