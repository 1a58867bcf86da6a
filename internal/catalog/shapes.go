package catalog

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/shape"
)

// Limits of the learned shapes, counted in places (shape.Shape.Size). A place takes about half a kilobyte of memory. If a limit is exceeded, the
// tools whose last answer is the oldest are forgotten.
const (
	maxUserPlaces = 16_000 // maximum number of places of one user
	maxPlaces     = 64_000 // maximum number of places of all users
	toolPlaces    = 4      // places that a tool counts for in addition to its shape
)

// KeptShape is what is learned from one tool's answers to one user, in the form that is kept across restarts.
type KeptShape struct {
	User       string       `json:"user"`
	Server     string       `json:"server"`
	Tool       string       `json:"tool"`
	Definition string       `json:"definition"` // digest of the tool's definition; a changed definition starts without a shape
	Answers    int          `json:"answers"`
	Used       int64        `json:"used"` // time of the last answer, in seconds since the Unix epoch
	Drift      []string     `json:"drift,omitempty"`
	Shape      *shape.Shape `json:"shape"`
}

// shapeKey identifies a kept shape.
type shapeKey struct{ user, server, tool, definition string }

func (k *KeptShape) key() shapeKey { return shapeKey{k.User, k.Server, k.Tool, k.Definition} }

// shapes holds the learned shapes of all users. A shape is shown only to the user who got the answers, because the names of fields may come from the
// user's own data. The zero value is ready for use.
type shapes struct {
	mu        sync.Mutex
	users     map[string]*shapesOf
	order     list.List // *shapesOf values, the one with the latest answer first
	places    int
	revisions int64 // latest revision that any learnedServer got
	change    chan struct{}
}

// shapesOf holds the learned shapes of one user.
type shapesOf struct {
	user    string
	elem    *list.Element            // element of shapes.order
	tools   map[string]*list.Element // *learned elements of order, by server and tool
	order   list.List                // *learned values, the latest answer first
	servers map[string]*learnedServer
	places  int
}

// learnedServer describes what is learned from one server's answers to one user.
type learnedServer struct {
	tools    int   // number of the server's tools in shapesOf.tools
	revision int64 // number that differs after each change
}

func toolKey(server, tool string) string { return server + "\x00" + tool }

// find returns what is learned from a tool's answers to a user, or nil.
func (s *shapes) find(user string, t *Tool) *published {
	if user == "" || !t.learns() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.users[user]; u != nil {
		if e := u.tools[toolKey(t.Server, t.Name)]; e != nil && e.Value.(*learned).definition == t.get().definition() {
			return e.Value.(*learned).now.Load()
		}
	}
	return nil
}

// revisionOf returns a number that differs after each change of what is learned from a server's answers to a user. It returns 0 if nothing is
// learned.
func (s *shapes) revisionOf(user, server string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.users[user]; u != nil && u.servers[server] != nil {
		return u.servers[server].revision
	}
	return 0
}

// use returns what is learned from a tool's answers to a user, and marks it as the one with the latest answer. A tool with a new definition starts
// without a shape.
func (s *shapes) use(user string, t *Tool) *learned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.users[user]; u != nil {
		if e := u.tools[toolKey(t.Server, t.Name)]; e != nil {
			if l := e.Value.(*learned); l.definition == t.get().definition() {
				s.order.MoveToFront(u.elem)
				u.order.MoveToFront(e)
				return l
			}
			s.forget(u, e)
		}
	}
	return s.add(&learned{user: user, server: t.Server, tool: t.Name, definition: t.get().definition()})
}

// add inserts l as the value with the latest answer. The caller holds s.mu, and so does every caller of resize, revise and forget.
func (s *shapes) add(l *learned) *learned {
	u := s.users[l.user]
	if u == nil {
		u = &shapesOf{user: l.user, tools: map[string]*list.Element{}, servers: map[string]*learnedServer{}}
		if s.users == nil {
			s.users = map[string]*shapesOf{}
		}
		s.users[l.user] = u
		u.elem = s.order.PushFront(u)
	}
	s.order.MoveToFront(u.elem)
	u.tools[toolKey(l.server, l.tool)] = u.order.PushFront(l)
	if u.servers[l.server] == nil {
		u.servers[l.server] = &learnedServer{}
	}
	u.servers[l.server].tools++
	s.resize(l)
	return l
}

// grown counts the size of a shape again after an answer. news reports that the answer has changed the part that readers see.
func (s *shapes) grown(l *learned, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.gone {
		return
	}
	if news {
		s.revise(s.users[l.user], l.server)
	}
	s.resize(l)
	if s.change != nil {
		select {
		case s.change <- struct{}{}:
		default:
		}
	}
}

// resize counts the size of a shape again, and forgets the oldest shapes if the limits are exceeded.
func (s *shapes) resize(l *learned) {
	u := s.users[l.user]
	grown := toolPlaces + l.shape.Size() - l.places
	l.places, u.places, s.places = l.places+grown, u.places+grown, s.places+grown
	for u.places > maxUserPlaces && u.order.Len() > 1 {
		s.forget(u, u.order.Back())
	}
	for s.places > maxPlaces {
		last := s.order.Back().Value.(*shapesOf)
		s.forget(last, last.order.Back())
	}
}

func (s *shapes) revise(u *shapesOf, server string) {
	s.revisions++
	u.servers[server].revision = s.revisions
}

// forget removes what is learned from the answers of one tool to one user.
func (s *shapes) forget(u *shapesOf, e *list.Element) {
	l := e.Value.(*learned)
	l.gone = true
	u.order.Remove(e)
	delete(u.tools, toolKey(l.server, l.tool))
	u.places -= l.places
	s.places -= l.places
	s.revise(u, l.server)
	if u.servers[l.server].tools--; u.servers[l.server].tools == 0 {
		delete(u.servers, l.server)
	}
	if u.order.Len() == 0 {
		s.order.Remove(u.elem)
		delete(s.users, u.user)
	}
}

// changes returns a channel that receives a value when something was learned.
func (s *shapes) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.change == nil {
		s.change = make(chan struct{}, 1)
	}
	return s.change
}

// kept returns everything learned, the latest answer last.
func (s *shapes) kept() (all []KeptShape) {
	s.mu.Lock()
	var known []*learned
	for _, u := range s.users {
		for e := u.order.Front(); e != nil; e = e.Next() {
			known = append(known, e.Value.(*learned))
		}
	}
	s.mu.Unlock()
	for _, l := range known {
		l.mu.Lock()
		if l.shape != nil {
			all = append(all, KeptShape{l.user, l.server, l.tool, l.definition, l.answers, l.used.Unix(), l.drift, l.shape})
		}
		l.mu.Unlock()
	}
	sortShapes(all)
	return all
}

// sortShapes sorts by the time of the last answer.
func sortShapes(all []KeptShape) {
	slices.SortFunc(all, func(a, b KeptShape) int {
		return cmp.Or(cmp.Compare(a.Used, b.Used), cmp.Compare(a.User, b.User), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
}

// restore adds kept shapes, the latest answer last, before anything is learned. It leaves out invalid ones.
func (s *shapes) restore(kept []KeptShape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kept {
		if k.User == "" || !k.Shape.Valid() || len(k.Drift) > maxDrift {
			continue
		}
		if u := s.users[k.User]; u != nil {
			if e := u.tools[toolKey(k.Server, k.Tool)]; e != nil {
				s.forget(u, e)
			}
		}
		l := &learned{
			user: k.User, server: k.Server, tool: k.Tool, definition: k.Definition, shape: k.Shape, answers: k.Answers, drift: k.Drift, used: time.Unix(k.Used, 0),
		}
		l.publish()
		s.add(l)
		s.revise(s.users[l.user], l.server)
	}
}
