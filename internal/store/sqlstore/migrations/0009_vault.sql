-- Sessions with tokens of personal data; session is sessions.id, the id of a run without a session, or of a schedule.
CREATE TABLE vaults (
    num     INTEGER PRIMARY KEY,
    user    TEXT    NOT NULL,
    session TEXT    NOT NULL,
    owner   TEXT    NOT NULL,               -- the process that numbers new tokens from 1
    others  INTEGER NOT NULL DEFAULT 0,     -- processes that numbered from a million times this, at the same time
    tokens  INTEGER NOT NULL DEFAULT 0,
    bytes   INTEGER NOT NULL DEFAULT 0,     -- of the sealed values
    used    INTEGER NOT NULL,               -- when a token was added, microseconds since the Unix epoch
    UNIQUE (user, session)
);
CREATE INDEX vaults_used ON vaults (used);

-- What each user has in all vaults. Triggers keep it.
CREATE TABLE vault_owners (
    user   TEXT    PRIMARY KEY,
    tokens INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER vaults_inserted AFTER INSERT ON vaults BEGIN
    INSERT INTO vault_owners VALUES (new.user, new.tokens, new.bytes)
        ON CONFLICT (user) DO UPDATE SET tokens = tokens + new.tokens, bytes = bytes + new.bytes;
END;
CREATE TRIGGER vaults_changed AFTER UPDATE OF tokens, bytes ON vaults BEGIN
    UPDATE vault_owners SET tokens = tokens + new.tokens - old.tokens, bytes = bytes + new.bytes - old.bytes WHERE user = new.user;
END;
CREATE TRIGGER vaults_deleted AFTER DELETE ON vaults BEGIN
    UPDATE vault_owners SET tokens = tokens - old.tokens, bytes = bytes - old.bytes WHERE user = old.user;
    DELETE FROM vault_owners WHERE user = old.user AND tokens = 0 AND bytes = 0;
END;

-- What vaults are given, in that order: tokens, and further origins of them.
CREATE TABLE tokens (
    num    INTEGER PRIMARY KEY,
    vault  INTEGER NOT NULL,                -- vaults.num
    type   TEXT    NOT NULL,
    n      INTEGER NOT NULL,
    key    BLOB,                            -- NULL, as sealed, for a further origin
    sealed BLOB,
    origin TEXT    NOT NULL
);
CREATE UNIQUE INDEX tokens_token ON tokens (vault, type, n) WHERE sealed IS NOT NULL;
CREATE INDEX tokens_origin ON tokens (vault) WHERE sealed IS NULL;
