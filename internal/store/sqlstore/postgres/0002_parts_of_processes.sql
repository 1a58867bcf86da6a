-- Part of each counter to which a process adds. Two live processes have the same one only if there are more processes than parts.
ALTER TABLE processes ADD COLUMN part BIGINT NOT NULL DEFAULT 0;
