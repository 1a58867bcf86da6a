-- The words of the tasks' texts, to search for. A row of the index is the task of that number; owner is the task's user as one word. The index
-- keeps no text: what is deleted is named with the texts that it was made of, and secure-delete takes its words out at once.
CREATE VIRTUAL TABLE task_words USING fts5 (owner, words, content='', tokenize='unicode61 remove_diacritics 2');
INSERT INTO task_words (task_words, rank) VALUES ('secure-delete', 1);

CREATE VIEW task_texts AS SELECT num, 'u' || hex(user) AS owner, json_extract(CAST(request AS TEXT), '$.task') AS words FROM tasks;
INSERT INTO task_words (rowid, owner, words) SELECT num, owner, words FROM task_texts;
