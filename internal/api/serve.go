package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	idleTimeout  = 2 * time.Minute
	closeTimeout = 2 * time.Second // for answers under way, when everything else has ended
)

// Listener is an address that is served.
type Listener struct {
	net.Listener
	Handler http.Handler
	TLS     *tls.Config // nil: plain
}

// Listen opens an address. The error says what to do.
func Listen(ctx context.Context, address string, handler http.Handler, certificate *tls.Config) (*Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with server.listen, or stop what listens there", address, err)
	}
	l = &connections{Listener: l, each: addressConnections, all: allConnections, from: map[netip.Addr]int{}}
	return &Listener{l, handler, certificate}, nil
}

// ServeOptions bound what clients may do to a server.
type ServeOptions struct {
	ReadTimeout time.Duration // for a request to arrive
	HeaderLimit int           // bytes
	Grace       time.Duration // for requests under way when the server stops
	Logger      *slog.Logger
}

// Serve serves listeners until ctx ends. Then /ready and requests for work are answered with 503, and what is under way goes on
// until drain has returned or the grace is over; only then the listeners close and the streams end. What the grace was too
// short for is cancelled, and may still say so. Serve returns when all connections are closed and no request is under way.
// An error is that of a listener that failed before.
func (a *API) Serve(ctx context.Context, listeners []*Listener, opt ServeOptions, drain func()) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	failed := make(chan error, len(listeners))
	servers := make([]*http.Server, len(listeners))
	for i, l := range listeners {
		servers[i] = &http.Server{
			Handler: l.Handler, TLSConfig: l.TLS, ReadHeaderTimeout: opt.ReadTimeout, ReadTimeout: opt.ReadTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: opt.HeaderLimit, ErrorLog: slog.NewLogLogger(opt.Logger.Handler(), slog.LevelDebug),
			BaseContext: func(net.Listener) context.Context { return requests },
		}
		go func() {
			var err error
			if l.TLS != nil {
				err = servers[i].ServeTLS(l, "", "")
			} else {
				err = servers[i].Serve(l)
			}
			if !errors.Is(err, http.ErrServerClosed) {
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
	a.draining.begin()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain()
		<-a.busy.landed()
		a.draining.seen(min(opt.Grace, probeWait))
	}()
	select {
	case <-drained:
		a.Close()
	case <-grace:
		a.Close() // before the cut: a task that is waited for is not cancelled
		cut()
		<-drained
	}
	stopped := make(chan struct{})
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(stopped)
		var all sync.WaitGroup
		for _, s := range servers {
			all.Go(func() { s.Shutdown(last) }) // an error says that time was up
		}
		all.Wait()
	}()
	select {
	case <-stopped:
	case <-time.After(closeTimeout):
	}
	cancel()
	for _, s := range servers {
		s.Close() // whatever still stands
	}
	<-stopped
	select {
	case <-a.all.landed():
	case <-time.After(closeTimeout):
		opt.Logger.Error("a request does not end")
	}
	return err
}

// probeWait is how long the listeners of a stopping server stay open for a probe of /ready to see the 503.
const probeWait = 3 * time.Second

// drain is the state of a server that stops. The zero value is one that does not.
type drain struct {
	mu      sync.Mutex
	stops   bool
	probed  time.Time     // when /ready was asked last, before the stop
	refused chan struct{} // closed when /ready has said 503 since
}

func (d *drain) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stops, d.refused = true, make(chan struct{})
}

// stopping says whether the server stops.
func (d *drain) stopping() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stops
}

// probe notes a question of /ready, and says whether the server stops.
func (d *drain) probe() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stops {
		d.probed = time.Now()
		return false
	}
	select {
	case <-d.refused:
	default:
		close(d.refused)
	}
	return true
}

// seen waits until /ready has said 503, within a bound, if anything asks it: in the last half minute something did.
func (d *drain) seen(most time.Duration) {
	d.mu.Lock()
	probed, refused := d.probed, d.refused
	d.mu.Unlock()
	if time.Since(probed) > 30*time.Second {
		return
	}
	select {
	case <-refused:
	case <-time.After(most):
	}
}
