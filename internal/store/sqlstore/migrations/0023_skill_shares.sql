-- Skills that users share. Others read a version of the store, never the files of the owner.
ALTER TABLE skills ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;        -- number of the version that others see, 0: none
ALTER TABLE skill_versions ADD COLUMN base INTEGER NOT NULL DEFAULT 0;  -- version that another user's proposal was made from, 0: no proposal

CREATE TABLE skill_shares (
    owner   TEXT    NOT NULL,
    name    TEXT    NOT NULL,                  -- path inside the owner's /skills
    grantee TEXT    NOT NULL,                  -- everyone, user:ID, team:NAME
    role    TEXT    NOT NULL,                  -- read, use, write, approve
    created INTEGER NOT NULL,                  -- microseconds since the Unix epoch
    PRIMARY KEY (owner, name, grantee)
) WITHOUT ROWID;
CREATE INDEX skill_shares_grantee ON skill_shares (grantee, owner, name);

-- Contents of other users' skills that users have accepted.
CREATE TABLE skill_accepted (
    user    TEXT    NOT NULL,
    owner   TEXT    NOT NULL,
    name    TEXT    NOT NULL,                  -- path inside the owner's /skills
    digest  TEXT    NOT NULL,                  -- digest of the accepted content
    created INTEGER NOT NULL,
    PRIMARY KEY (user, owner, name)
) WITHOUT ROWID;
CREATE INDEX skill_accepted_owner ON skill_accepted (owner, name);
