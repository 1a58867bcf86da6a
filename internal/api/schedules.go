package api

import (
	"context"
	"errors"
	"net/http"

	"mcp-code-exec-harness/internal/task"
)

// NewSchedule is the request for a schedule.
type NewSchedule struct {
	TaskRequest
	Cron string `json:"cron,omitempty" example:"0 9 * * 1-5" doc:"Minute, hour, day, month, weekday; or runAt for a single time."`
	Zone string `json:"timeZone,omitempty" example:"Europe/Berlin" doc:"IANA name; UTC when left out."`
}

// ScheduleList lists the schedules of a user.
type ScheduleList struct {
	Schedules []task.Schedule `json:"schedules"`
}

func (a *API) addSchedules() {
	operation(a, endpoint{
		"createSchedule", "POST /v1/schedules", "schedules", http.StatusCreated, "Work a task at planned times", "",
	}, func(ctx context.Context, in *struct {
		Key  string `header:"Idempotency-Key" maxLength:"200" doc:"A repeated request with the same key returns the first one's schedule."`
		Body NewSchedule
	},
	) (*created[task.Schedule], error) {
		r, err := in.Body.request(ctx, "")
		if err == nil {
			err = a.take(ctx)
		}
		if err == nil {
			err = a.enterSession(ctx, r.UserID, in.Body.SessionID)
		}
		if err != nil {
			return nil, err
		}
		n := task.NewSchedule{Request: r, Cron: in.Body.Cron, Zone: in.Body.Zone}
		if in.Key != "" {
			in.Body.UserID = r.UserID
			known := newKeyedID("sched_", identity(ctx).Caller(), in.Key, in.Body)
			n.ID = known.id
			all, err := a.opt.Tasks.Schedules(ctx, r.UserID)
			if err != nil {
				return nil, err
			}
			for _, s := range all {
				if made, err := known.made(s.ID); made || err != nil {
					return &created[task.Schedule]{"/v1/schedules/" + s.ID, s}, err
				}
			}
		}
		s, err := a.opt.Tasks.CreateSchedule(ctx, n)
		return &created[task.Schedule]{"/v1/schedules/" + s.ID, s}, err
	})

	operation(a, endpoint{"listSchedules", "GET /v1/schedules", "schedules", http.StatusOK, "List schedules", ""}, func(ctx context.Context, in *struct {
		UserID string `query:"userId"`
	},
	) (*body[ScheduleList], error) {
		user, err := seeUser(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		schedules, err := a.opt.Tasks.Schedules(ctx, user)
		return &body[ScheduleList]{ScheduleList{list(schedules)}}, err
	})

	operation(a, endpoint{"getSchedule", "GET /v1/schedules/{id}", "schedules", http.StatusOK, "A schedule", ""}, func(ctx context.Context, in *ByID) (*body[task.Schedule], error) {
		s, err := a.opt.Tasks.Schedule(ctx, in.ID)
		return &body[task.Schedule]{s}, own(ctx, err, s.UserID, "schedule")
	})

	operation(a, endpoint{
		"deleteSchedule", "DELETE /v1/schedules/{id}", "schedules", http.StatusNoContent, "End a schedule",
		"Tasks that it has made remain.",
	}, func(ctx context.Context, in *ByID) (*struct{}, error) {
		s, err := a.opt.Tasks.Schedule(ctx, in.ID)
		if err := own(ctx, err, s.UserID, "schedule"); err != nil {
			return nil, err
		}
		return nil, a.opt.Tasks.DeleteSchedule(ctx, in.ID)
	})
}

// enterSession creates a session if it is absent. It returns an error if the session belongs to another user.
func (a *API) enterSession(ctx context.Context, user, session string) error {
	if session == "" {
		return nil
	}
	leave, err := a.opt.Tasks.EnterSession(ctx, user, session)
	if errors.Is(err, task.ErrNotFound) {
		return absent("session")
	}
	if err == nil {
		leave()
	}
	return err
}
