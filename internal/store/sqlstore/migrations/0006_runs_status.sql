-- Lists of the runs of one status need not read the others.
CREATE INDEX runs_status ON runs (status, started);
