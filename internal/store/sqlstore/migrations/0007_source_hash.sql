ALTER TABLE runs DROP COLUMN source_hash; -- no query reads it
