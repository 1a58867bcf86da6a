-- Writes whose outcome is unknown, and what a person said about them. A row is inserted with the answer, or the end of the run, that leaves
-- the write in doubt. It goes with its run.
CREATE TABLE doubts (
    num        INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,              -- runs.num
    call       INTEGER NOT NULL,              -- number of the call
    seq        INTEGER NOT NULL,              -- of its record in the journal
    user       TEXT    NOT NULL,              -- of the run
    sent       INTEGER NOT NULL,              -- time of the intent, microseconds since the Unix epoch, as the rest
    verdict    TEXT    NOT NULL DEFAULT 'open',
    settled    INTEGER,
    settled_by TEXT    NOT NULL DEFAULT '',
    note       TEXT    NOT NULL DEFAULT '',
    UNIQUE (run, call)
);
CREATE INDEX doubts_verdict ON doubts (verdict, num);
CREATE INDEX doubts_user ON doubts (user, verdict, num);

-- The doubts of earlier versions. The answer that is in doubt may have its error in a blob.
INSERT INTO doubts (run, call, seq, user, sent)
    SELECT run, n, call, user, sent FROM (
        SELECT i.run, i.n, r.user, r.ended, json_extract(CAST(i.data AS TEXT), '$.time') AS sent,
            (SELECT seq FROM journal WHERE run = i.run AND seq < i.seq AND type = 'call' AND n = i.n ORDER BY seq DESC LIMIT 1) AS call,
            (SELECT seq FROM journal WHERE run = i.run AND seq > i.seq AND type = 'answer' AND n = i.n ORDER BY seq LIMIT 1) AS answer
        FROM journal i JOIN runs r ON r.num = i.run WHERE i.type = 'intent' AND r.purged = 0) w
    WHERE call IS NOT NULL AND sent IS NOT NULL AND CASE WHEN answer IS NULL THEN ended IS NOT NULL ELSE 'in_doubt' = coalesce(
        (SELECT json_extract(CAST(data AS TEXT), '$.error.kind') FROM journal WHERE run = w.run AND seq = answer),
        (SELECT json_extract(CAST(b.data AS TEXT), '$.kind') FROM blob_refs f JOIN blobs b ON b.id = f.blob WHERE f.run = w.run AND f.seq = answer AND f.field = 'error')) END
    ORDER BY sent;
