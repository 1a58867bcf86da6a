-- Searches use no vectors.
DROP TABLE embeddings;
