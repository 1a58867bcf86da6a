-- What a person has confirmed. The public key of approvals is among it: where there is one, approvals need a signature.
CREATE TABLE confirmations (
    subject TEXT PRIMARY KEY,
    value   BLOB NOT NULL
) WITHOUT ROWID;

-- JSON: the signature of an approval; NULL: it has none.
ALTER TABLE approvals ADD COLUMN signature BLOB;
