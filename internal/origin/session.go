package origin

import (
	"container/list"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Origins that are not tools.
const (
	User     = "user"     // texts of the user: the task, inputs, files
	Code     = "code"     // values that are only in the text of a program
	Computed = "computed" // values that are in no known text
)

// MaxOrigins is the maximum number of tools that are recorded per value. If there are further tools, Found.More is set.
const MaxOrigins = 8

// Session remembers the values of one run, or of all runs of one session. It is safe for concurrent use.
type Session struct {
	memory *Memory
	key    key

	// Fields guarded by memory.mu.
	uses    int
	keep    bool
	dropped bool
	bytes   int64
	idle    *list.Element // place among the idle sessions; nil while the session is used

	mu    sync.Mutex
	table table
	names names
	lost  bool // values are missing, so Found.Complete is false
	bound bool // the table cannot grow, because the memory is full
	parts splitter

	filling sync.Mutex
	runs    map[string]bool // runs whose answers the session contains
}

// Found is the known origin of a value.
type Found struct {
	Said []string // origins of the whole value: User and full names of tools; empty if there are none
	More bool     // whether further tools, whose names were not recorded, said the value
	// Parts are the origins of parts of a value, if the whole value has no origin.
	Parts []string
	// Complete is true if the session knows all its values. If it is false, a value without an origin may have one.
	Complete bool
}

// Said records the values of a JSON text. by is their origin: the full name of the tool that answered, or User.
func (s *Session) Said(by string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by(by)
	s.parts.json(string(value), maxNested)
}

// SaidText does the same as Said for a text that need not be JSON.
func (s *Session) SaidText(by, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by(by)
	s.parts.text(text, maxNested)
}

// by prepares s.parts to record the values of an origin.
func (s *Session) by(name string) {
	number := s.names.named(name)
	s.parts.start(s.memory.seed, minOf(name), func(h uint64, _ bool) bool { return s.add(h, number) })
}

// minOf returns the minimum size of parts of a text from an origin.
func minOf(by string) int {
	if by == User {
		return 1
	}
	return MinPart
}

// Sent marks the values of a JSON text as sent to a server.
func (s *Session) Sent(args []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts.start(s.memory.seed, MinPart, s.send)
	s.parts.json(string(args), maxNested)
}

// add records an origin of the value with the hash h. by is the number of the origin. add reports false if nothing more can be recorded.
func (s *Session) add(h uint64, by uint16) bool {
	at := s.place(h)
	if at == nil {
		return false
	}
	if *at&sentMark == 0 {
		*at = s.names.add(*at, by)
	} else if is := *at &^ sentMark; by == user {
		*at = s.names.add(is, by) | sentMark
	}
	return true
}

// send marks the value with the hash h as sent, unless it is small. It reports false if nothing more can be recorded.
func (s *Session) send(h uint64, small bool) bool {
	if small {
		return true
	}
	at := s.place(h)
	if at == nil {
		return false
	}
	*at |= sentMark
	return true
}

// place finds or creates the place of a value in the table. It returns nil if there is no room.
func (s *Session) place(h uint64) *uint16 {
	if s.table.full() {
		size := s.table.next()
		if s.bound || !s.memory.take(s, bytesOf(size)) {
			s.lost, s.bound = true, true
			return nil
		}
		before := bytesOf(len(s.table.keys))
		s.table.grow(size)
		s.memory.mu.Lock()
		s.memory.give(s, before)
		s.memory.mu.Unlock()
	}
	return s.table.place(h)
}

// Lose records that the session lacks values that a tool or the user said, so Found.Complete is false from then on.
func (s *Session) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// Fill calls fill to add the answers of earlier runs that the session lacks. known are the runs that the session contains; fill adds to
// them. Only one fill runs at a time.
func (s *Session) Fill(fill func(known map[string]bool)) {
	s.filling.Lock()
	defer s.filling.Unlock()
	fill(s.runs)
}

// Find returns the known origin of a value, which is a string or the literal of a number.
func (s *Session) Find(value string) (f Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Complete = !s.lost
	spellings := []string{value}
	if number, err := strconv.ParseFloat(value, 64); err == nil && strings.ContainsAny(value, ".eE") {
		spellings = append(spellings, numeral(number))
	}
	if strings.Contains(value, "%") {
		if plain, err := url.PathUnescape(value); err == nil {
			spellings = append(spellings, plain)
		}
	}
	for _, scheme := range []string{"https://", "http://"} { // A user may write an address without its scheme, such as www.example.com.
		if len(value) > len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
			spellings = append(spellings, strings.TrimSuffix(value[len(scheme):], "/"))
		}
	}
	var said uint16
	for _, text := range spellings {
		if h := s.parts.hash(s.memory.seed, text); h != 0 {
			said = s.names.join(said, s.table.get(h)&^sentMark)
		}
	}
	if f.Said, f.More = s.names.of(said); said != 0 {
		return f
	}
	var parts uint16
	s.parts.start(s.memory.seed, MinPart, func(h uint64, _ bool) bool {
		parts = s.names.join(parts, s.table.get(h)&^sentMark)
		return true
	})
	s.parts.text(value, 0)
	f.Parts, _ = s.names.of(parts)
	return f
}

// Normal returns a text in its normalised form.
func Normal(text string) string { return string(normalise(nil, text)) }
