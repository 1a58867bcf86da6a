-- Kept answers of tools that only read. An answer is valid while its state is that of its server.
CREATE TABLE answers (
    num     INTEGER PRIMARY KEY,
    user    TEXT    NOT NULL,
    key     BLOB    NOT NULL,               -- keyed hash of the tool, its definition and the arguments
    state   INTEGER NOT NULL,               -- answer_states.n when the answer was read
    made    INTEGER NOT NULL,               -- microseconds since the Unix epoch
    expires INTEGER NOT NULL,               -- microseconds since the Unix epoch
    sealed  BLOB    NOT NULL,
    UNIQUE (user, key)
);
CREATE INDEX answers_user ON answers (user, num);
CREATE INDEX answers_expires ON answers (expires);

-- How often calls may have changed what a server answers.
CREATE TABLE answer_states (
    server TEXT    PRIMARY KEY,
    n      INTEGER NOT NULL
) WITHOUT ROWID;
