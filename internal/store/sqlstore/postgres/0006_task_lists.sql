-- Lists of tasks are in the order of num, which SQLite appends to each index. Without it, a page of a user's tasks was found among all tasks.
DROP INDEX tasks_user, tasks_status, tasks_session;
CREATE INDEX tasks_user ON tasks ("user", purged, num);
CREATE INDEX tasks_status ON tasks (status, purged, num);
CREATE INDEX tasks_session ON tasks (session, purged, num);
