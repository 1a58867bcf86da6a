// This program uses the API through a client that is generated from the API's document. The test writes package generated beside it.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"client/generated"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	url, key := os.Args[1], os.Args[2]
	c, err := generated.NewClientWithResponses(url, generated.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	check(err)

	// The endpoint of the original system.
	sync, err := c.TaskWithResponse(ctx, nil, generated.TaskJSONRequestBody{UserId: "alice", Task: "RUN<<return {total: 42}>>"})
	check(err)
	fmt.Println(sync.JSON200.Output, *sync.JSON200.Text, len(sync.JSON200.Runs))

	// A task in the background, and its events.
	started, err := c.CreateTaskWithResponse(ctx, nil, generated.CreateTaskJSONRequestBody{Task: "SAY<<Hello.>>"})
	check(err)
	id := started.JSON202.Id
	events, err := c.TaskEvents(ctx, id, nil)
	check(err)
	text, err := io.ReadAll(events.Body)
	check(err)
	events.Body.Close()
	fmt.Println(strings.Contains(string(text), "event: task.ended"))
	ended, err := c.GetTaskWithResponse(ctx, id)
	check(err)
	fmt.Println(ended.JSON200.Status, *ended.JSON200.Text)

	// A run, its replay, and a list of runs.
	run, err := c.CreateRunWithResponse(ctx, nil, generated.CreateRunJSONRequestBody{Code: "return 6 * 7"})
	check(err)
	again, err := c.ReplayRunWithResponse(ctx, run.JSON200.RunId, nil)
	check(err)
	limit := int64(1)
	runs, err := c.ListRunsWithResponse(ctx, &generated.ListRunsParams{Limit: &limit})
	check(err)
	fmt.Println(run.JSON200.Output, again.JSON200.Output, len(runs.JSON200.Runs), runs.JSON200.Next != nil)

	// A skill, and an error.
	put, err := c.PutSkillWithBodyWithResponse(ctx, "add.js", nil, "text/plain", strings.NewReader("export default (a, b) => a + b"))
	check(err)
	skills, err := c.ListSkillsWithResponse(ctx, nil)
	check(err)
	none, err := c.GetTaskWithResponse(ctx, "none")
	check(err)
	fmt.Println(put.StatusCode(), skills.JSON200.Skills[0].Path, none.StatusCode(), none.ApplicationproblemJSON4XX.Error)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
