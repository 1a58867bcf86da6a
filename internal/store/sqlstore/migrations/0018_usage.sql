-- What runs, calls and tasks that have ended add up to, by slots of time. The rows of an owner are its own; those of the owner '' are of all.
CREATE TABLE usage (
    span     INTEGER NOT NULL,              -- length of the slot in seconds
    slot     INTEGER NOT NULL,              -- beginning of the slot, seconds since the Unix epoch
    kind     TEXT    NOT NULL,              -- run, call, task
    owner    TEXT    NOT NULL,
    server   TEXT    NOT NULL,              -- of a call
    name     TEXT    NOT NULL,              -- tool of a call, model of a task; '': others
    n        INTEGER NOT NULL DEFAULT 0,
    failed   INTEGER NOT NULL DEFAULT 0,
    calls    INTEGER NOT NULL DEFAULT 0,    -- of runs
    input    INTEGER NOT NULL DEFAULT 0,    -- tokens of tasks, as the rest
    output   INTEGER NOT NULL DEFAULT 0,
    saved    INTEGER NOT NULL DEFAULT 0,    -- against direct calls, by estimate
    cost     INTEGER NOT NULL DEFAULT 0,    -- 1e-9 US dollars
    unpriced INTEGER NOT NULL DEFAULT 0,    -- tasks whose cost is not known
    -- How many took how long, by bounds that package usage has.
    h0 INTEGER NOT NULL DEFAULT 0, h1 INTEGER NOT NULL DEFAULT 0, h2 INTEGER NOT NULL DEFAULT 0,
    h3 INTEGER NOT NULL DEFAULT 0, h4 INTEGER NOT NULL DEFAULT 0, h5 INTEGER NOT NULL DEFAULT 0,
    h6 INTEGER NOT NULL DEFAULT 0, h7 INTEGER NOT NULL DEFAULT 0, h8 INTEGER NOT NULL DEFAULT 0,
    h9 INTEGER NOT NULL DEFAULT 0, h10 INTEGER NOT NULL DEFAULT 0, h11 INTEGER NOT NULL DEFAULT 0,
    h12 INTEGER NOT NULL DEFAULT 0, h13 INTEGER NOT NULL DEFAULT 0, h14 INTEGER NOT NULL DEFAULT 0,
    h15 INTEGER NOT NULL DEFAULT 0, h16 INTEGER NOT NULL DEFAULT 0, h17 INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (span, slot, kind, owner, server, name)
) WITHOUT ROWID;
