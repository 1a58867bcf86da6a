package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/task"
)

// NewSchedule asks for a schedule.
type NewSchedule struct {
	TaskRequest
	Cron string `json:"cron,omitempty" example:"0 9 * * 1-5" doc:"Minute, hour, day, month, weekday; or runAt for a single time."`
	Zone string `json:"timeZone,omitempty" example:"Europe/Berlin" doc:"IANA name; UTC when left out."`
}

// SchedulePath names a schedule.
type SchedulePath struct {
	ID string `path:"id" doc:"Schedule id."`
}

// ScheduleList is the schedules of a user.
type ScheduleList struct {
	Schedules []task.Schedule `json:"schedules"`
}

func (a *API) addSchedules() {
	operation(a, huma.Operation{
		OperationID: "createSchedule", Method: http.MethodPost, Path: "/v1/schedules", Tags: []string{"schedules"},
		Summary: "Have a task worked at planned times", DefaultStatus: http.StatusCreated,
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
			n.ID = keyedID("sched_", identity(ctx).Caller(), in.Key, in.Body)
			all, err := a.opt.Tasks.Schedules(ctx, r.UserID)
			for _, s := range all {
				if same, err := sameKey("sched_", n.ID, s.ID); same || err != nil {
					return &created[task.Schedule]{"/v1/schedules/" + s.ID, s}, err
				}
			}
			if err != nil {
				return nil, err
			}
		}
		s, err := a.opt.Tasks.CreateSchedule(ctx, n)
		return &created[task.Schedule]{"/v1/schedules/" + s.ID, s}, err
	})

	operation(a, huma.Operation{
		OperationID: "listSchedules", Method: http.MethodGet, Path: "/v1/schedules", Tags: []string{"schedules"}, Summary: "List schedules",
	}, func(ctx context.Context, in *struct {
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

	operation(a, huma.Operation{
		OperationID: "getSchedule", Method: http.MethodGet, Path: "/v1/schedules/{id}", Tags: []string{"schedules"}, Summary: "A schedule",
	}, func(ctx context.Context, in *SchedulePath) (*body[task.Schedule], error) {
		s, err := a.opt.Tasks.Schedule(ctx, in.ID)
		return &body[task.Schedule]{s}, own(ctx, err, s.UserID, "schedule")
	})

	operation(a, huma.Operation{
		OperationID: "deleteSchedule", Method: http.MethodDelete, Path: "/v1/schedules/{id}", Tags: []string{"schedules"}, Summary: "End a schedule",
		Description: "Tasks that it has made stay.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *SchedulePath) (*struct{}, error) {
		s, err := a.opt.Tasks.Schedule(ctx, in.ID)
		if err := own(ctx, err, s.UserID, "schedule"); err != nil {
			return nil, err
		}
		return nil, a.opt.Tasks.DeleteSchedule(ctx, in.ID)
	})
}

// enterSession makes sure that a session is the user's; an absent one is created.
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
