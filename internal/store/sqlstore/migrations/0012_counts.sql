-- Calls that count for limits of policy.
CREATE TABLE counts (
    num     INTEGER PRIMARY KEY,
    user    TEXT    NOT NULL,
    key     TEXT    NOT NULL,               -- hash of the rule, and the run, task or time
    calls   INTEGER NOT NULL,
    expires INTEGER NOT NULL,               -- microseconds since the Unix epoch
    UNIQUE (user, key)
);
CREATE INDEX counts_expires ON counts (expires);
