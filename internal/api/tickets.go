package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

const (
	ticketParam   = "ticket"
	ticketLife    = 30 * time.Second
	callerTickets = 100 // maximum number of unused tickets of a caller
	allTickets    = 10_000
)

// Ticket opens one stream of events for a client that cannot send headers.
type Ticket struct {
	Ticket  string    `json:"ticket" doc:"The query parameter ticket of one stream of events."`
	Expires time.Time `json:"expiresAt" doc:"30 s from now."`
}

// tickets holds credentials that are valid for one request each. A ticket stands for the caller whose request created it. The zero value is ready
// for use.
type tickets struct {
	mu  sync.Mutex
	all map[string]ticket
}

type ticket struct {
	caller       string
	expires      time.Time
	authenticate func(context.Context) (auth.Identity, error) // checks again the credential of the request that created the ticket
}

func (a *API) addTickets() {
	operation(a, endpoint{
		"createTicket", "POST /v1/tickets", "tasks", http.StatusCreated, "Make a ticket for a stream of events",
		"It stands for the caller in one request to " + eventsPath + " or " + socketPath +
			", as the query parameter ticket, within 30 s: EventSource and WebSocket of browsers send no Authorization header.",
	}, func(ctx context.Context, _ *struct{}) (*body[Ticket], error) {
		t, err := a.tickets.issue(visitOf(ctx), time.Now())
		return &body[Ticket]{t}, err
	})
}

// issue creates a ticket for the caller of a request. The error names the limit that is reached.
func (t *tickets) issue(v *visit, now time.Time) (Ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	caller, own := v.identity.Caller(), 0
	for value, one := range t.all {
		if !now.Before(one.expires) {
			delete(t.all, value)
		} else if one.caller == caller {
			own++
		}
	}
	switch {
	case own >= callerTickets:
		return Ticket{}, problem(http.StatusTooManyRequests, fmt.Sprintf("%d tickets are unused: use one, or wait %s", own, ticketLife))
	case len(t.all) >= allTickets:
		return Ticket{}, problem(http.StatusServiceUnavailable, fmt.Sprintf("%d tickets are unused: try again later", len(t.all)))
	}
	if t.all == nil {
		t.all = map[string]ticket{}
	}
	made := Ticket{"ht_" + rand.Text(), now.Add(ticketLife).UTC()}
	t.all[made.Ticket] = ticket{caller, made.Expires, v.authenticate}
	return made, nil
}

// redeem uses up a ticket, and returns the function that checks the credential of the request that created the ticket.
func (t *tickets) redeem(value string) func(context.Context) (auth.Identity, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, known := t.all[value]
	delete(t.all, value)
	if !known || !time.Now().Before(one.expires) {
		return func(context.Context) (auth.Identity, error) {
			return auth.Identity{}, fmt.Errorf("%w: the ticket is used, expired or unknown; POST /v1/tickets makes another", auth.ErrUnauthenticated)
		}
	}
	return one.authenticate
}
