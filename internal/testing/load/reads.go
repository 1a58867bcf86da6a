package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// readers is the number of concurrent reads of one user.
const readers = 4

// besideReads compares the latency of a user alone with the latency beside another user who constantly reads a list of n items, in rounds of the
// given length. prepare makes the items, with a key of that other user. The result is the ratio of the medians.
func besideReads(path string, n, rounds int, length time.Duration, prepare func(context.Context, *server, int) error) func(context.Context, *server) (figures, error) {
	return func(ctx context.Context, s *server) (f figures, err error) {
		reader, err := s.as(ctx, "reader")
		if err != nil {
			return f, err
		}
		if err := prepare(ctx, reader, n); err != nil {
			return f, fmt.Errorf("make what is read: %w", err)
		}
		var list struct{ Approvals, Files []struct{} }
		if err := reader.call(ctx, path, nil, &list); err != nil || len(list.Approvals)+len(list.Files) != n {
			return f, errors.Join(err, fmt.Errorf("%s has %d items, want %d", path, len(list.Approvals)+len(list.Files), n))
		}
		var alone, beside []time.Duration
		var read atomic.Int64
		for range rounds {
			some, err := s.latencies(ctx, length)
			if err != nil {
				return f, err
			}
			alone = append(alone, some...)
			reading, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				ended <- together(readers, readers, func(int) error {
					for reading.Err() == nil {
						if err := reader.call(reading, path, nil, nil); err != nil && reading.Err() == nil {
							return err
						}
						read.Add(1)
					}
					return nil
				})
			}()
			some, err = s.latencies(ctx, length)
			stop()
			if err = errors.Join(err, <-ended); err != nil {
				return f, err
			}
			beside = append(beside, some...)
		}
		slices.Sort(alone)
		slices.Sort(beside)
		return figures{
			float64(at(beside, 0.5)) / float64(at(alone, 0.5)),
			fmt.Sprintf("p50 %s, p99 %s alone; p50 %s, p99 %s beside %d reads", at(alone, 0.5), at(alone, 0.99), at(beside, 0.5), at(beside, 0.99), read.Load()),
		}, nil
	}
}

// as returns the server with a new key of a user.
func (s *server) as(ctx context.Context, user string) (*server, error) {
	key, err := exec.CommandContext(ctx, s.cmd.Path, "keys", "create", "--config", s.file(), "--user", user, user).Output()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &server{url: s.url, key: strings.TrimSpace(string(key)), http: s.http}, nil
}

// waitingApprovals makes n runs that wait for an approval.
func waitingApprovals(ctx context.Context, s *server, n int) error {
	return together(n, 8, func(i int) error {
		var out struct{ Status string }
		err := s.call(ctx, "/v1/runs", map[string]any{"code": fmt.Sprintf("return await callMCPTool('load__echo', {zeta: 'ask', alpha: %d})", i)}, &out)
		if err == nil && out.Status != "waiting_approval" {
			err = fmt.Errorf("a run is %s", out.Status)
		}
		return err
	})
}

// manyFiles makes n files, a multiple of 1,000, in the session "many".
func manyFiles(ctx context.Context, s *server, n int) error {
	for made := 0; made < n; made += 1000 {
		var out struct {
			Status string
			Error  json.RawMessage
		}
		code := fmt.Sprintf("for (let i = 0; i < 1000; i++) fs.writeFileSync('/workspace/file' + (%d + i), 'x')", made)
		if err := s.call(ctx, "/v1/runs", map[string]any{"sessionId": "many", "code": code}, &out); err != nil || out.Status != "succeeded" {
			return errors.Join(err, fmt.Errorf("a run is %s: %s", out.Status, out.Error))
		}
	}
	return nil
}
