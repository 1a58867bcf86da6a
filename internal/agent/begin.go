package agent

import (
	"context"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
)

const (
	maxSkills    = 30  // maximum number of skills in a task's prompt
	maxSkillText = 160 // maximum size of a skill's description in bytes
)

// begin records the prompt of the task, because the skills in it may change before the task continues.
func (w *work) begin(ctx context.Context) (*ending, error) {
	text, err := w.prompt(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return internal(err)
	}
	w.add(task.Step{Note: &task.Note{Text: text}})
	w.limitHistory()
	return nil, nil
}

// prompt returns the first message of the task. It contains no skills if they cannot be listed.
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
	shown := skills[:min(len(skills), maxSkills)]
	d.MoreSkills = len(skills) - len(shown)
	for _, s := range shown {
		if s.Description, err = w.privacy.Hide(ctx, pii.FromSkill, s.Description); err != nil { // before clip.Counted, which could cut a value in two
			return "", err
		}
		s.Description = clip.Counted(strings.Join(strings.Fields(s.Description), " "), maxSkillText)
		d.Skills = append(d.Skills, s)
	}
	text, err := w.a.opt.Prompts.prompt(d)
	if err != nil {
		return "", err
	}
	return w.privacy.Hide(ctx, pii.FromProgram, text) // the parts of the text already have tokens in place of personal data
}
