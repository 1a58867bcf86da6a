package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

const (
	idleTimeout  = 2 * time.Minute
	firstHeaders = 10 * time.Second // time limit for the headers of a request; a lower ReadTimeout wins
	closeTimeout = 5 * time.Second  // time limit for pending answers, after the streams were ended
	probeWait    = 3 * time.Second  // time for a probe of /ready to see the 503 of a stopping server
	probeEvery   = 30 * time.Second // maximum pause between probes of a load balancer
	pollEvery    = 5 * time.Millisecond
)

// Listener is a network listener with the handler of its requests.
type Listener struct {
	net.Listener
	Handler http.Handler
}

// Listen opens an address; a nil certificate means plain HTTP. Connections of proxies count as connections of many clients. The text of an error says what
// the operator can do.
func Listen(ctx context.Context, address string, handler http.Handler, certificate *tls.Config, proxies auth.Proxies) (*Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with server.listen, or stop what listens there", address, err)
	}
	l = listenBounded(l, productLimits, proxies.Trusts)
	if certificate != nil {
		certificate = certificate.Clone()
		certificate.NextProtos = []string{"h2", "http/1.1"}
		l = tls.NewListener(l, certificate)
	}
	return &Listener{l, handler}, nil
}

// ServeOptions limits what clients may use, and sets how a server stops.
type ServeOptions struct {
	ReadTimeout time.Duration // time limit for a request to arrive
	HeaderLimit int           // maximum size of the headers in bytes
	Grace       time.Duration // time for pending requests when the server stops
	Logger      *slog.Logger
}

// Serve serves listeners until ctx ends or a listener fails. Then it answers /ready and requests for work with 503. Pending requests continue until
// drain has returned and they have ended, or until the grace period is over. Only then the streams end and the listeners close. Requests that are
// still pending after the grace period are cancelled, and may still be answered. Serve returns when all connections are closed and no request is
// pending. If a listener failed, Serve returns the error of that listener.
func (a *API) Serve(ctx context.Context, listeners []*Listener, opt ServeOptions, drain func()) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	failed := make(chan error, len(listeners))
	servers := make([]*http.Server, len(listeners))
	for i, l := range listeners {
		servers[i] = &http.Server{
			Handler: l.Handler, ReadHeaderTimeout: min(opt.ReadTimeout, firstHeaders), ReadTimeout: opt.ReadTimeout, ConnContext: withConn,
			IdleTimeout: idleTimeout, MaxHeaderBytes: opt.HeaderLimit, ErrorLog: slog.NewLogLogger(opt.Logger.Handler(), slog.LevelDebug),
			BaseContext: func(net.Listener) context.Context { return requests },
		}
		go func() {
			if err := servers[i].Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	grace := time.After(opt.Grace)
	a.stopping.Store(true)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain()
		for a.busy.Load() > 0 {
			time.Sleep(pollEvery)
		}
		if time.Since(time.Unix(0, a.probed.Load())) < probeEvery {
			poll(min(opt.Grace, probeWait), a.refused.Load)
		}
	}()
	select {
	case <-drained:
		a.Close()
	case <-grace:
		a.Close() // called before cut, so that the handler of /task sees that the server stops; otherwise it would cancel the task, as if the caller had disconnected
		cut()
		<-drained
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			if s.Shutdown(last) != nil {
				s.Close()
			}
		})
	}
	all.Wait()
	if !poll(closeTimeout, func() bool { return a.requests.Load() == 0 }) {
		opt.Logger.Error("a request does not end")
	}
	return err
}

// poll calls holds again and again until it returns true, as http.Server.Shutdown polls its connections. It returns false if holds does not return
// true within the given time (most).
func poll(most time.Duration, holds func() bool) bool {
	for end := time.Now().Add(most); !holds(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
