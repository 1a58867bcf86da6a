-- Who has approved a definition, and when: what a person is told whose approval comes later.
ALTER TABLE pins ADD COLUMN approved_by TEXT NOT NULL DEFAULT '';    -- '': nobody, it was the first one of the tool
ALTER TABLE pins ADD COLUMN approved_at INTEGER NOT NULL DEFAULT 0;  -- microseconds since the Unix epoch
