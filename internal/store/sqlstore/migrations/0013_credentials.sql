-- What logins to upstream servers led to, encrypted.
CREATE TABLE credentials (
    server  TEXT    NOT NULL,
    user    TEXT    NOT NULL,               -- empty: of all users
    sealed  BLOB    NOT NULL,
    updated INTEGER NOT NULL,               -- microseconds since the Unix epoch
    PRIMARY KEY (server, user)
) WITHOUT ROWID;
