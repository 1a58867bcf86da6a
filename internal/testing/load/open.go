package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the load of a server by connections without credentials.
const (
	openMemory = 64 << 20         // bytes by which the memory of the server's process may grow
	openAudit  = 1 << 20          // bytes by which the server's audit log may grow
	openPause  = 40 * time.Second // longest pause before a closed connection is opened again
)

// besideOpenConnections compares the latency of a user with a key alone with the latency beside connections without credentials, in rounds of
// the given length. The result is the ratio of the 99th percentiles. Memory or an audit log that grows beyond its bound is an error.
func besideOpenConnections(rounds, connections int, length time.Duration) func(context.Context, *server) (figures, error) {
	return func(ctx context.Context, s *server) (f figures, err error) {
		var before int64
		var alone, beside []time.Duration
		var most, opened, logged int64
		for round := range rounds {
			some, err := s.latencies(ctx, length)
			if err != nil {
				return f, err
			}
			alone = append(alone, some...)
			if round == 0 {
				if before, err = s.resident(); err != nil {
					return f, err
				}
				logged = s.auditSize()
			}
			attack, stop := context.WithCancel(ctx)
			ended := make(chan int64, 1)
			all := make(chan struct{})
			go func() { ended <- s.openConnections(attack, connections, all) }()
			<-all
			some, err = s.latencies(ctx, length)
			if now, failed := s.resident(); failed == nil {
				most = max(most, now-before)
			}
			stop()
			opened += <-ended
			if err != nil {
				return f, err
			}
			beside = append(beside, some...)
		}
		grown := s.auditSize() - logged
		if most > openMemory {
			err = errors.Join(err, fmt.Errorf("the server's memory has grown by %d MiB", most>>20))
		}
		if grown > openAudit {
			err = errors.Join(err, fmt.Errorf("the audit log has grown by %d KiB", grown>>10))
		}
		slices.Sort(alone)
		slices.Sort(beside)
		p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
		return figures{
			float64(p99(beside)) / float64(p99(alone)),
			fmt.Sprintf("p99 %s alone, %s beside %d connections; memory +%d MiB, audit log +%d KiB", p99(alone), p99(beside), opened, most>>20, grown>>10),
		}, err
	}
}

// latencies makes short runs, 20 a second, for the given time, and returns their latencies.
func (s *server) latencies(ctx context.Context, length time.Duration) (all []time.Duration, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
		begin := time.Now()
		if err := s.call(ctx, "/v1/runs", map[string]any{"userId": "ann", "code": "return 1"}, nil); err != nil {
			return all, err
		}
		all = append(all, time.Since(begin))
	}
	return all, nil
}

// openConnections keeps n connections without credentials open until ctx ends: idle ones, ones whose headers or bodies do not end, and ones with
// invalid keys. It opens a closed connection again after a pause. It closes all when each connection was opened once, and returns how many were
// opened altogether.
func (s *server) openConnections(ctx context.Context, n int, all chan<- struct{}) int64 {
	address := strings.TrimPrefix(s.url, "http://")
	part := strings.Repeat("x", 256<<10)
	var made atomic.Int64
	var wg, first sync.WaitGroup
	first.Add(n)
	go func() {
		first.Wait()
		close(all)
	}()
	for i := range n {
		wg.Go(func() {
			begun := sync.OnceFunc(first.Done)
			defer begun()
			for ctx.Err() == nil {
				conn, err := net.DialTimeout("tcp", address, 5*time.Second)
				if err == nil {
					made.Add(1)
					stop := context.AfterFunc(ctx, func() { conn.Close() })
					conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
					switch i % 5 {
					case 1:
						fmt.Fprint(conn, "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nX-A: ")
					case 2:
						fmt.Fprint(conn, "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n", part)
					case 3:
						fmt.Fprint(conn, "POST /internal/mcp-call HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n40000\r\n", part)
					case 4:
						fmt.Fprintf(conn, "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer hk_%d\r\n\r\n", rand.Int64())
					}
					begun()
					_, _ = io.Copy(io.Discard, conn) // returns when the connection is closed
					stop()
					conn.Close()
				}
				begun()
				select {
				case <-time.After(rand.N(openPause)):
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
	return made.Load()
}

// resident returns the resident memory of the server's process, in bytes.
func (s *server) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the memory of the server: %q", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// auditSize returns the size of all files of the server's audit log.
func (s *server) auditSize() (size int64) {
	files, _ := filepath.Glob(filepath.Join(s.dir, "0", "data", "audit.jsonl*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}
