-- The rows that there are become the partition 0 of their table (0005). Checked constraints prove that they belong there, so that attaching the
-- partition reads no rows. This step and the next one let processes of the former version write meanwhile.
ALTER TABLE journal ADD CONSTRAINT journal_bound CHECK (run < 1099511627776) NOT VALID;
ALTER TABLE blob_refs ADD CONSTRAINT blob_refs_bound CHECK (run < 1099511627776) NOT VALID;
ALTER TABLE blobs ADD CONSTRAINT blobs_bound CHECK (id < 1099511627776) NOT VALID;
