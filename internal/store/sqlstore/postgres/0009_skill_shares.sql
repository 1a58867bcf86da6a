-- Skills that users share. Others read a version of the store, never the files of the owner.
ALTER TABLE skills ADD COLUMN shared BIGINT NOT NULL DEFAULT 0;        -- number of the version that others see, 0: none
ALTER TABLE skill_versions ADD COLUMN base BIGINT NOT NULL DEFAULT 0;  -- version that another user's proposal was made from, 0: no proposal

CREATE TABLE skill_shares (
    owner   TEXT   COLLATE "C" NOT NULL,
    name    TEXT   COLLATE "C" NOT NULL,      -- path inside the owner's /skills
    grantee TEXT   COLLATE "C" NOT NULL,      -- everyone, user:ID, team:NAME
    role    TEXT   COLLATE "C" NOT NULL,      -- read, use, write, approve
    created BIGINT NOT NULL,                  -- microseconds since the Unix epoch
    PRIMARY KEY (owner, name, grantee)
);
CREATE INDEX skill_shares_grantee ON skill_shares (grantee, owner, name);

-- Contents of other users' skills that users have accepted.
CREATE TABLE skill_accepted (
    "user"  TEXT   COLLATE "C" NOT NULL,
    owner   TEXT   COLLATE "C" NOT NULL,
    name    TEXT   COLLATE "C" NOT NULL,      -- path inside the owner's /skills
    digest  TEXT   COLLATE "C" NOT NULL,      -- digest of the accepted content
    created BIGINT NOT NULL,
    PRIMARY KEY ("user", owner, name)
);
CREATE INDEX skill_accepted_owner ON skill_accepted (owner, name);
