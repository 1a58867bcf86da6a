package agent

import (
	"context"
	"strings"

	"mcp-code-exec-harness/internal/task"
)

const (
	maxSkills    = 30  // that a task's prompt names
	maxSkillText = 160 // bytes of a description
)

// begin records the prompt of the task: what it is made of may be another thing after a crash.
func (w *work) begin(ctx context.Context) (*ending, error) {
	text, err := w.prompt(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return internal(err), nil
	}
	w.add(task.Step{Note: &task.Note{Text: text}})
	return nil, nil
}

// prompt is the first message of the task. Skills that cannot be listed are no reason not to do it.
func (w *work) prompt(ctx context.Context) (string, error) {
	d := taskData{User: w.task.UserID, Task: w.task.Task}
	if len(w.task.Context) > 0 && string(w.task.Context) != "null" {
		var err error
		if d.Context, err = w.fit(ctx, w.task.ID+"/context.json", string(w.task.Context)); err != nil {
			return "", err
		}
	}
	skills, err := w.a.opt.Runs.Skills(ctx, w.task.UserID)
	if err != nil {
		skills = nil
	}
	for i, s := range skills {
		if i == maxSkills {
			d.MoreSkills = len(skills) - maxSkills
			break
		}
		if s.Description, err = w.privacy.Hide(ctx, s.Description); err != nil { // a part of a value would not be found
			return "", err
		}
		s.Description = clip(strings.Join(strings.Fields(s.Description), " "), maxSkillText)
		d.Skills = append(d.Skills, s)
	}
	text, err := w.a.opt.Prompts.prompt(d)
	if err != nil {
		return "", err
	}
	return w.privacy.Hide(ctx, text) // of skills, which users write too
}
