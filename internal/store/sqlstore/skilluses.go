package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/versions"
)

// usedFor is a request in the column requests of skill_uses.
type usedFor struct {
	At   int64  `json:"at"` // microseconds since the Unix epoch
	Text string `json:"text"`
}

// UseSkills stores that a run of a user has ended which used skills, by their names. request is the text of its task, empty if there is none. It is kept if
// the run succeeded, at most versions.MaxRequests of each skill.
func (s *Store) UseSkills(ctx context.Context, user string, names []string, succeeded bool, request string) (err error) {
	defer wrap(&err, "store the use of skills")
	now := s.now().UnixMicro()
	request = clip.Head(request, versions.MaxRequestBytes)
	failed, last := 1, time.Time{}
	if succeeded {
		failed, last = 0, time.UnixMicro(now)
	}
	return s.write(ctx, len(names)*len(request), func(c *conn) {
		for _, name := range names {
			c.exec(`INSERT INTO skill_uses (user, name, runs, failed, last, succeeded, requests) VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6) ON CONFLICT (user, name)
				DO UPDATE SET runs = skill_uses.runs + 1, failed = skill_uses.failed + ?3, last = ?4, succeeded = coalesce(?5, skill_uses.succeeded)`,
				user, name, failed, now, orNull(last), []byte("[]"))
			if succeeded && request != "" {
				c.keepRequests(user, name, func(all []usedFor) []usedFor {
					all = append(slices.DeleteFunc(all, func(r usedFor) bool { return r.Text == request }), usedFor{now, request})
					return all[max(0, len(all)-versions.MaxRequests):]
				})
			}
		}
		c.exec(`DELETE FROM skill_uses WHERE user = ?1 AND name IN (SELECT name FROM skill_uses WHERE user = ?1 ORDER BY last DESC LIMIT 1000 OFFSET ?2)`, user, versions.MaxUses)
	})
}

// keepRequests replaces the requests of a skill by what change makes of them.
func (c *conn) keepRequests(user, name string, change func([]usedFor) []usedFor) {
	var text []byte
	var all []usedFor
	c.row("SELECT requests FROM skill_uses WHERE user = ? AND name = ? /*+ FOR UPDATE */", []any{user, name}, &text)
	if c.err != nil {
		return
	}
	if json.Unmarshal(text, &all) != nil { // A broken list is replaced.
		all = nil
	}
	var oldest time.Time
	if all = change(all); len(all) > 0 {
		oldest = time.UnixMicro(all[0].At)
	}
	text, _ = json.Marshal(all) // strings always encode
	c.exec("UPDATE skill_uses SET requests = ?, asked = ? WHERE user = ? AND name = ?", text, orNull(oldest), user, name)
}

// SkillUses returns the uses of skills by programs of a user, by the names of the skills.
func (s *Store) SkillUses(ctx context.Context, user string) (_ map[string]versions.Uses, err error) {
	defer wrap(&err, "list the uses of skills")
	all := map[string]versions.Uses{}
	err = s.each(ctx, "SELECT name, runs, failed, last, succeeded, requests FROM skill_uses WHERE user = ?", []any{user}, func(row scanner) error {
		var name string
		var u versions.Uses
		var requests []usedFor
		if err := row.Scan(&name, &u.Runs, &u.Failed, instant{&u.Last}, instant{&u.Succeeded}, object{&requests}); err != nil {
			return fmt.Errorf("the use of a skill as it is stored: %w", err)
		}
		for _, r := range requests {
			u.Requests = append(u.Requests, r.Text)
		}
		all[name] = u
		return nil
	})
	return all, err
}

// purgeRequests deletes the requests and the programs from before a time, as the tasks that they are of.
func (s *Store) purgeRequests(ctx context.Context, before time.Time) error {
	var programs, requests bool
	if err := s.each(ctx, "SELECT EXISTS (SELECT 1 FROM task_programs WHERE created < ?1), EXISTS (SELECT 1 FROM skill_uses WHERE asked < ?1)", []any{before}, func(row scanner) error {
		return row.Scan(&programs, &requests)
	}); err != nil {
		return err
	}
	for programs {
		n, err := s.purgeStep(ctx, "DELETE FROM task_programs WHERE (user, key) IN (SELECT user, key FROM task_programs WHERE created < ? LIMIT ?)", before, purgeRuns)
		if err != nil {
			return err
		}
		programs = n == purgeRuns
	}
	for requests {
		if err := s.write(ctx, 0, func(c *conn) {
			var user, name string
			if requests = c.row("SELECT user, name FROM skill_uses WHERE asked < ? LIMIT 1", []any{before}, &user, &name); requests {
				c.keepRequests(user, name, func(all []usedFor) []usedFor {
					return slices.DeleteFunc(all, func(r usedFor) bool { return r.At < before.UnixMicro() })
				})
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// maxPrograms is the maximum number of programs of a user that are compared with later ones.
const maxPrograms = 1000

// KeepProgram stores the program of a task's run under a key, or, if an earlier task of the user has one with this key, that this task is the first to repeat it.
func (s *Store) KeepProgram(ctx context.Context, user, key, task, run string) (err error) {
	defer wrap(&err, "store the program of a task")
	now := s.now().UnixMicro()
	return s.write(ctx, 0, func(c *conn) {
		c.exec(`INSERT INTO task_programs (user, key, task, created) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (user, key) DO UPDATE SET
			again = ?3, run = ?5, created = ?4 WHERE task_programs.again = '' AND task_programs.task <> ?3`, user, key, task, now, run)
		c.exec(`DELETE FROM task_programs WHERE user = ?1 AND key IN (SELECT key FROM task_programs WHERE user = ?1 ORDER BY created DESC LIMIT 1000 OFFSET ?2)`, user, maxPrograms)
	})
}

// RepeatedProgram returns the earlier task whose program a task was the first to repeat; nil if there is none.
func (s *Store) RepeatedProgram(ctx context.Context, user, id string) (found *task.Repeat, err error) {
	defer wrap(&err, "look for a repeated program")
	err = s.each(ctx, "SELECT task, run FROM task_programs WHERE user = ? AND again = ? AND again <> '' LIMIT 1", []any{user, id}, func(row scanner) error {
		found = &task.Repeat{}
		return row.Scan(&found.Task, &found.Run)
	})
	return found, err
}
