-- Vectors of texts, by the model that made them.
CREATE TABLE embeddings (
    model  TEXT    NOT NULL,                -- provider/name
    hash   BLOB    NOT NULL,                -- SHA-256 of the text
    vector BLOB    NOT NULL,                -- a byte for each component
    used   INTEGER NOT NULL,                -- microseconds since the Unix epoch, to the day
    PRIMARY KEY (model, hash)
) WITHOUT ROWID;
CREATE INDEX embeddings_used ON embeddings (used);
