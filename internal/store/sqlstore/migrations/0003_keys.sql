-- Keys of the HTTP API. The key itself is not stored.
CREATE TABLE keys (
    num       INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    hash      BLOB    NOT NULL UNIQUE,      -- SHA-256 of the key
    name      TEXT    NOT NULL,
    user      TEXT    NOT NULL,             -- '' may act for any user
    roles     TEXT    NOT NULL,             -- JSON array
    created   INTEGER NOT NULL,             -- microseconds since the Unix epoch, as the rest
    last_used INTEGER,
    expires   INTEGER,
    revoked   INTEGER
);
