-- A webhook of a request for an approval names it, and has task 0. It is there only while the request waits, so that the quota of those
-- bounds them too.
ALTER TABLE webhooks ADD COLUMN approval TEXT NOT NULL DEFAULT '';  -- approvals.id
CREATE INDEX webhooks_approval ON webhooks (approval) WHERE approval <> '';
CREATE TRIGGER approvals_settled AFTER UPDATE OF status ON approvals WHEN old.status = 'waiting' AND new.status <> 'waiting' BEGIN
    DELETE FROM webhooks WHERE approval <> '' AND approval = old.id;
END;
CREATE TRIGGER approvals_removed AFTER DELETE ON approvals WHEN old.status = 'waiting' BEGIN
    DELETE FROM webhooks WHERE approval <> '' AND approval = old.id;
END;
