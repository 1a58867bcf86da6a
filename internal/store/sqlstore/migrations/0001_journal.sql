-- One row for each run, summarised from its start and end records. num keeps the journal's rows small.
CREATE TABLE runs (
    num         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    user        TEXT    NOT NULL,
    session     TEXT    NOT NULL,
    file        TEXT    NOT NULL,
    tier        TEXT    NOT NULL,
    source_hash BLOB    NOT NULL,           -- SHA-256 of the program as written
    started     INTEGER NOT NULL,           -- microseconds since the Unix epoch
    ended       INTEGER,                    -- NULL while the run is unfinished
    status      TEXT    NOT NULL,
    calls       INTEGER NOT NULL DEFAULT 0,
    duration_us INTEGER NOT NULL DEFAULT 0,
    error_kind  TEXT    NOT NULL DEFAULT '',
    owner       TEXT    NOT NULL,           -- the process that works on it, by its lock file
    purged      INTEGER NOT NULL DEFAULT 0  -- 1: its records are being deleted, it is gone for readers
);
CREATE INDEX runs_started ON runs (started);
CREATE INDEX runs_user ON runs (user, started) WHERE user <> '';
CREATE INDEX runs_session ON runs (session, started) WHERE session <> '';
CREATE INDEX runs_unfinished ON runs (owner) WHERE ended IS NULL;
CREATE INDEX runs_purged ON runs (num) WHERE purged = 1;

CREATE TABLE journal (
    run  INTEGER NOT NULL,                  -- runs.num
    seq  INTEGER NOT NULL,                  -- 1, 2, ... without gaps
    type TEXT    NOT NULL,                  -- start, call, intent, answer, log, end
    n    INTEGER NOT NULL,                  -- number of the call, 0 if it is none
    data BLOB    NOT NULL,                  -- JSON, without the fields that are blobs
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- Large values, each kept once.
CREATE TABLE blobs (
    id   INTEGER PRIMARY KEY,
    hash BLOB    NOT NULL UNIQUE,           -- SHA-256 of data
    data BLOB    NOT NULL
);

-- Which field of which record is which blob. A blob without a reference is deleted with its last one.
CREATE TABLE blob_refs (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    field TEXT    NOT NULL,
    blob  INTEGER NOT NULL,                 -- blobs.id
    PRIMARY KEY (run, seq, field)
) WITHOUT ROWID;
CREATE INDEX blob_refs_blob ON blob_refs (blob);
