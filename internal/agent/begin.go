package agent

import (
	"context"

	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
)

// maxSkillTokens is the maximum size of the skills that a model gets for a request, in estimated tokens.
const maxSkillTokens = 300

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
	var err error
	if d.Skills, d.MoreSkills, err = w.skills(ctx, d.Task); err != nil {
		return "", err
	}
	text, err := w.a.opt.Prompts.prompt(d)
	if err != nil {
		return "", err
	}
	return w.privacy.Hide(ctx, pii.FromProgram, text) // the parts of the text already have tokens in place of personal data
}

// skills returns the user's skills that fit a request in words, as the model sees them, and the number of the others. There are none if they cannot be
// listed.
func (w *work) skills(ctx context.Context, request string) (shown []modelview.Skill, others int, err error) {
	fit, others, err := w.a.opt.Runs.Skills(ctx, w.task.UserID, request)
	if err != nil {
		return nil, 0, nil
	}
	size := 0
	for _, s := range fit {
		description, err := w.privacy.Hide(ctx, pii.FromSkill, s.Description)
		if err != nil {
			return nil, 0, err
		}
		s = modelview.ShortSkill(s.Name, description)
		if size += len(s.Name) + len(s.Description) + len("- : \n"); tokensOf(size) > maxSkillTokens {
			return shown, others + len(fit) - len(shown), nil
		}
		shown = append(shown, s)
	}
	return shown, others, nil
}
