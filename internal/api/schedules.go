package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/task"
)

func (a *API) addSchedules() {
	huma.Register(a.doc, huma.Operation{
		OperationID: "createSchedule", Method: http.MethodPost, Path: "/v1/schedules", Tags: []string{"schedules"},
		Summary: "Have a task worked at planned times", DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		Body struct {
			TaskRequest
			Cron string `json:"cron,omitempty" example:"0 9 * * 1-5" doc:"Minute, hour, day, month, weekday; or runAt for a single time."`
			Zone string `json:"timeZone,omitempty" example:"Europe/Berlin" doc:"IANA name; UTC when left out."`
		}
	}) (*struct {
		Location string `header:"Location"`
		Body     task.Schedule
	}, error,
	) {
		r, err := in.Body.request(ctx, "")
		if err == nil {
			err = a.take(r.UserID)
		}
		if err == nil && in.Body.SessionID != "" {
			err = a.enterSession(ctx, r.UserID, in.Body.SessionID)
		}
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		s, err := a.opt.Tasks.CreateSchedule(ctx, task.NewSchedule{Request: r, Cron: in.Body.Cron, Zone: in.Body.Zone})
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		return &struct {
			Location string `header:"Location"`
			Body     task.Schedule
		}{"/v1/schedules/" + s.ID, s}, nil
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "listSchedules", Method: http.MethodGet, Path: "/v1/schedules", Tags: []string{"schedules"}, Summary: "List schedules",
	}, func(ctx context.Context, in *struct {
		UserID string `query:"userId"`
	}) (*struct {
		Body struct {
			Schedules []task.Schedule `json:"schedules"`
		}
	}, error,
	) {
		user, err := seeUser(ctx, in.UserID)
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		out := &struct {
			Body struct {
				Schedules []task.Schedule `json:"schedules"`
			}
		}{}
		schedules, err := a.opt.Tasks.Schedules(ctx, user)
		out.Body.Schedules = list(schedules)
		return out, a.fail(ctx, err)
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "deleteSchedule", Method: http.MethodDelete, Path: "/v1/schedules/{id}", Tags: []string{"schedules"}, Summary: "End a schedule",
		DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	}) (*struct{}, error) {
		s, err := a.opt.Tasks.Schedule(ctx, in.ID)
		if err == nil {
			err = own(ctx, s.UserID, "schedule "+in.ID)
		}
		if err == nil {
			err = a.opt.Tasks.DeleteSchedule(ctx, in.ID)
		}
		return nil, a.fail(ctx, err)
	})
}
