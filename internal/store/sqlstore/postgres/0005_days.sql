-- Partitions by day. The numbers of a day are from day << 40 to (day + 1) << 40; days are since the Unix epoch, in UTC. A run's number is of the day on
-- which it began, and the ids of its blobs are of the same day, so that its rows are in the partitions of that day. The partition 0 has what was
-- stored before, what processes of the former version store, and what came from a file of SQLite.
LOCK TABLE runs, journal, blob_refs, blobs IN ACCESS EXCLUSIVE MODE;

ALTER TABLE journal RENAME TO journal_0;
ALTER INDEX journal_pkey RENAME TO journal_0_pkey;
CREATE TABLE journal (LIKE journal_0, PRIMARY KEY (run, seq)) PARTITION BY RANGE (run);
ALTER TABLE journal ATTACH PARTITION journal_0 FOR VALUES FROM (MINVALUE) TO (1099511627776);
ALTER TABLE journal_0 DROP CONSTRAINT journal_bound;

ALTER TABLE blob_refs RENAME TO blob_refs_0;
ALTER INDEX blob_refs_pkey RENAME TO blob_refs_0_pkey;
ALTER INDEX blob_refs_blob RENAME TO blob_refs_0_blob;
CREATE TABLE blob_refs (LIKE blob_refs_0, PRIMARY KEY (run, seq, field)) PARTITION BY RANGE (run);
CREATE INDEX blob_refs_blob ON blob_refs (blob);
ALTER TABLE blob_refs ATTACH PARTITION blob_refs_0 FOR VALUES FROM (MINVALUE) TO (1099511627776);
ALTER TABLE blob_refs_0 DROP CONSTRAINT blob_refs_bound;

-- Each partition keeps a value once: it has an index of its own for that, because the hash alone cannot be unique in a partitioned table.
ALTER TABLE blobs RENAME TO blobs_0;
ALTER INDEX blobs_pkey RENAME TO blobs_0_pkey;
ALTER INDEX blobs_hash_key RENAME TO blobs_0_hash;
ALTER TABLE blobs_0 ALTER COLUMN id DROP IDENTITY;
CREATE TABLE blobs (LIKE blobs_0, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE SEQUENCE blobs_id OWNED BY blobs.id;
ALTER TABLE blobs ALTER COLUMN id SET DEFAULT nextval('blobs_id');
SELECT setval('blobs_id', (SELECT coalesce(max(id), 0) + 1 FROM blobs_0), false);
ALTER TABLE blobs ATTACH PARTITION blobs_0 FOR VALUES FROM (MINVALUE) TO (1099511627776);
ALTER TABLE blobs_0 DROP CONSTRAINT blobs_bound;

-- The runs of a day are deleted many at a time, so their bytes are counted once for each user, and not once for each run.
CREATE FUNCTION count_deleted_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_owner("user", -sum(bytes)::BIGINT, 0, 0, 0, 0) FROM deleted GROUP BY "user";
    RETURN NULL;
END $$;
DROP TRIGGER runs_deleted ON runs;
CREATE TRIGGER runs_deleted AFTER DELETE ON runs REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_runs();
