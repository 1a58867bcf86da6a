package slots

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Queue orders waiting places. The owner that holds the least comes first. Among owners that hold equally much, the owner whose last turn is the
// longest ago comes first or, with Earliest, the owner with the earliest place. A Queue is not safe for concurrent use. The zero value does not
// limit what one owner may hold.
type Queue struct {
	Each     int           // maximum size that one owner may hold; 0 means no limit
	Alone    time.Duration // an owner may hold more than Each if no other owner got a place for this long; 0 means never
	Earliest bool          // whether, among owners that hold equally much, the owner with the earliest place comes first
	owners   map[string]*owner
	ready    owners    // owners that wait and may get more
	taken    int       // number of places given to owners that waited
	waits    int       // number of calls of Wait so far
	last     string    // owner that got the last place
	since    time.Time // time since which every place went to the owner in last
}

// Place is a share of a resource that one owner holds or waits for. Its size is the number of slots.
type Place struct {
	Since time.Time // orders the places of one owner, and owners that have not had a turn yet
	Grant func()    // called when the place is granted
	owner *owner
	size  int
	order int // order among places with the same Since
}

func (p *Place) compare(other *Place) int {
	return cmp.Or(p.Since.Compare(other.Since), p.order-other.order)
}

type owner struct {
	name    string
	has     int
	turn    int      // twice the value of Queue.taken when the owner got its last place; owners with a lower turn come first
	waiting []*Place // waiting places, in the order of Since
	index   int      // index in Queue.ready; -1 if the owner is not in it
}

// Wait adds a waiting place of the given size.
func (q *Queue) Wait(name string, size int, p *Place) {
	o := q.of(name, size, p)
	q.waits++
	p.order = q.waits
	at, _ := slices.BinarySearchFunc(o.waiting, p, (*Place).compare)
	o.waiting = slices.Insert(o.waiting, at, p)
	q.update(o)
}

// Hold gives a place of the given size to an owner that has not waited for it.
func (q *Queue) Hold(name string, size int, p *Place) {
	o := q.of(name, size, p)
	o.has += size
	q.update(o)
}

func (q *Queue) of(name string, size int, p *Place) *owner {
	if q.owners == nil {
		q.owners = map[string]*owner{}
	}
	o := q.owners[name]
	if o == nil {
		o = &owner{name: name, index: -1}
		if !q.Earliest {
			o.turn = 2*q.taken - 1 // the new owner comes after owners that have waited longer, and before the owner that had the last turn
		}
		q.owners[name] = o
	}
	p.owner, p.size = o, size
	return o
}

// Leave removes a waiting place, and reports whether it was waiting.
func (q *Queue) Leave(p *Place) bool {
	if p.owner == nil {
		return false
	}
	i := slices.Index(p.owner.waiting, p)
	if i < 0 {
		return false
	}
	p.owner.waiting = slices.Delete(p.owner.waiting, i, i+1)
	q.update(p.owner)
	return true
}

// First returns the place that comes next, or nil if there is none.
func (q *Queue) First() *Place {
	if len(q.ready) == 0 {
		return nil
	}
	return q.ready[0].waiting[0]
}

// Take gives a waiting place to its owner, and calls its Grant.
func (q *Queue) Take(p *Place) {
	p.owner.has += p.size
	if q.taken++; !q.Earliest {
		p.owner.turn = 2 * q.taken
	}
	q.Leave(p)
	if before := q.owners[q.last]; p.owner.name != q.last {
		if q.taken > 1 {
			q.since = time.Now()
		}
		if q.last = p.owner.name; before != nil {
			q.update(before) // the owner before is not alone any more, so Each limits it
		}
	}
	p.Grant()
}

// Return takes back a place that an owner holds.
func (q *Queue) Return(p *Place) {
	p.owner.has -= p.size
	q.update(p.owner)
}

// More compares the owners of p and than. more is the size that the owner of p holds minus the size that the owner of than holds. same reports
// whether both are the same owner.
func (p *Place) More(than *Place) (more int, same bool) {
	return p.owner.has - than.owner.has, p.owner == than.owner
}

// Owner returns the name of the place's owner.
func (p *Place) Owner() string { return p.owner.name }

// Waiting returns the number of waiting places of an owner.
func (q *Queue) Waiting(name string) int {
	if o := q.owners[name]; o != nil {
		return len(o.waiting)
	}
	return 0
}

// Has returns how much an owner holds.
func (q *Queue) Has(name string) int {
	if o := q.owners[name]; o != nil {
		return o.has
	}
	return 0
}

// update moves an owner to its position in the queue after a change.
func (q *Queue) update(o *owner) {
	ready := len(o.waiting) > 0 && (q.Each == 0 || o.has == 0 || o.has+o.waiting[0].size <= q.Each || q.alone(o))
	switch {
	case ready && o.index < 0:
		heap.Push(&q.ready, o)
	case ready:
		heap.Fix(&q.ready, o.index)
	case o.index >= 0:
		heap.Remove(&q.ready, o.index)
	}
	if len(o.waiting) == 0 && o.has == 0 {
		delete(q.owners, o.name)
	} else {
		q.owners[o.name] = o
	}
}

func (q *Queue) alone(o *owner) bool {
	return q.Alone > 0 && o.name == q.last && time.Since(q.since) >= q.Alone
}

// owners is a heap of owners, the next one first.
type owners []*owner

func (q owners) Len() int { return len(q) }

func (q owners) Less(i, j int) bool {
	return cmp.Or(q[i].has-q[j].has, q[i].turn-q[j].turn, q[i].waiting[0].compare(q[j].waiting[0])) < 0
}

func (q owners) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *owners) Push(x any) {
	o := x.(*owner)
	o.index = len(*q)
	*q = append(*q, o)
}

func (q *owners) Pop() any {
	last := len(*q) - 1
	o := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	o.index = -1
	return o
}
