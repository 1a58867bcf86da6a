-- What servers say about their tools: as it was approved, and as they said it last.
CREATE TABLE pins (
    server      TEXT    NOT NULL,
    tool        TEXT    NOT NULL,              -- '': the server's title and instructions
    approved    TEXT    NOT NULL DEFAULT '',   -- hash of the approved definition; '': none
    bytes       INTEGER NOT NULL DEFAULT 0,    -- of the approved definition
    seen        TEXT    NOT NULL DEFAULT '',   -- hash of the last one; '': the server does not list the tool
    since       INTEGER NOT NULL,              -- when seen was set, microseconds since the Unix epoch
    approved_as BLOB,                          -- JSON
    seen_as     BLOB,                          -- JSON; NULL where it is the approved one
    PRIMARY KEY (server, tool)
);
CREATE INDEX pins_held ON pins (server, tool) WHERE seen <> '' AND seen <> approved;

-- When a person last approved a definition.
CREATE TABLE reviews (last INTEGER NOT NULL);
INSERT INTO reviews VALUES (0);
