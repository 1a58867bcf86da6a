package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// outcome is the result of a simulation.
type outcome struct {
	tasks        int
	length       time.Duration
	besides      []time.Duration // time of each task without the time of the model, sorted
	group        float64         // mean number of commits in a transaction
	transactions float64         // transactions per second of one PostgreSQL server
	busy         float64         // share of the replicas' processors
}

func (o outcome) at(share float64) time.Duration {
	if len(o.besides) == 0 {
		return 0
	}
	return o.besides[int(share*float64(len(o.besides)-1))].Round(100 * time.Microsecond)
}

// simulation executes events in the order of their times.
type simulation struct {
	now   time.Duration
	queue events
	seq   int
}

type event struct {
	at  time.Duration
	seq int // order of events at the same time; the lower number comes first
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *simulation) after(wait time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, event{s.now + wait, s.seq, do})
}

// processors execute work in the order of its arrival.
type processors struct {
	*simulation
	free    int
	waiting []work
	used    time.Duration
}

type work struct {
	takes time.Duration
	then  func()
}

func (p *processors) do(takes time.Duration, then func()) {
	if p.free == 0 {
		p.waiting = append(p.waiting, work{takes, then})
		return
	}
	p.free--
	p.used += takes
	p.after(takes, func() {
		p.free++
		if len(p.waiting) > 0 {
			next := p.waiting[0]
			p.waiting = p.waiting[1:]
			p.do(next.takes, next.then)
		}
		then()
	})
}

// writer is the only writer of a replica. Commits that are requested during a transaction share the next transaction.
type writer struct {
	*simulation
	database     *processors
	a            assumptions
	each         time.Duration // processor time of a commit in the database
	waiting      []func()
	busy         bool
	transactions int
}

// tripsOfTransaction is the number of round trips to PostgreSQL in a transaction: for the statements, for what depends on their results, and for COMMIT.
const tripsOfTransaction = 3

func (w *writer) commit(then func()) {
	w.waiting = append(w.waiting, then)
	if !w.busy {
		w.begin()
	}
}

func (w *writer) begin() {
	w.busy = true
	w.transactions++
	group := w.waiting
	w.waiting = nil
	w.database.do(time.Duration(len(group))*w.each, func() {
		w.after(tripsOfTransaction*w.a.trip+w.a.flush, func() {
			if w.busy = false; len(w.waiting) > 0 {
				w.begin()
			}
			for _, then := range group {
				then()
			}
		})
	})
}

// simulate simulates the busiest hour for a limited time. One PostgreSQL server has its share of the replicas.
func simulate(p plan, t task, a assumptions, length time.Duration) outcome {
	replicas := max(1, p.replicas/p.shards)
	rate := p.rate / float64(p.shards)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // each simulation is the same
	s := &simulation{}
	database := &processors{simulation: s, free: a.dbCores}
	var all []*processors
	var writers []*writer
	for range replicas {
		all = append(all, &processors{simulation: s, free: a.cores})
		writers = append(writers, &writer{simulation: s, database: database, a: a, each: t.database / time.Duration(t.commits)})
	}
	var o outcome
	commits := 0
	var arrive func()
	arrive = func() {
		s.after(time.Duration(random.ExpFloat64()/rate*float64(time.Second)), arrive)
		r := random.IntN(replicas)
		begun, asked := s.now, time.Duration(0)
		var step func(n int)
		step = func(n int) {
			if n == t.commits {
				o.besides = append(o.besides, s.now-begun-asked)
				return
			}
			wait := time.Duration(0)
			if n%(t.commits/t.turns) == 0 {
				wait = time.Duration(random.ExpFloat64() * float64(a.model))
				asked += wait
			}
			s.after(wait, func() {
				all[r].do(t.processor/time.Duration(t.commits), func() {
					commits++
					writers[r].commit(func() { step(n + 1) })
				})
			})
		}
		step(0)
	}
	arrive()
	for s.now < length {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		e.do()
	}
	var used time.Duration
	for _, p := range all {
		used += p.used
	}
	transactions := 0
	for _, w := range writers {
		transactions += w.transactions
	}
	slices.Sort(o.besides)
	o.tasks, o.length = len(o.besides), length
	o.group = float64(commits) / float64(max(transactions, 1))
	o.transactions = float64(transactions) / length.Seconds()
	o.busy = used.Seconds() / (length.Seconds() * float64(replicas*a.cores))
	return o
}
