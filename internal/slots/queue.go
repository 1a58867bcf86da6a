package slots

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Queue orders those that wait for places. The owner that has the fewest comes first; owners with as many take turns, or the earliest
// place of theirs comes first. It is not safe for concurrent use. The zero value has no bound for one owner.
type Queue struct {
	Each     int           // places that one owner may have; 0: any number
	Alone    time.Duration // an owner may have more if no other got a place for so long; 0: it may not
	Earliest bool          // the earliest place of owners with as many comes first
	owners   map[string]*owner
	ready    owners    // owners that wait and may have more
	taken    int       // places that were given to those that waited
	waits    int       // number of waits that began
	last     string    // the owner that got the last one
	since    time.Time // start of last's exclusive use
}

// Place is what one owner has or waits for.
type Place struct {
	Since time.Time // orders those of one owner, and owners that have not had a turn yet
	Grant func()    // called when the slot is granted
	owner *owner
	size  int
	order int // among those with the same Since
}

func (p *Place) compare(other *Place) int {
	return cmp.Or(p.Since.Compare(other.Since), p.order-other.order)
}

type owner struct {
	name    string
	has     int
	turn    int      // twice what Queue.taken was when it got its last place; owners with less come first
	waiting []*Place // the longest first
	index   int      // index in Queue.ready; -1: none
}

// Wait adds a place of this size to those that wait.
func (q *Queue) Wait(name string, size int, p *Place) {
	o := q.of(name, size, p)
	q.waits++
	p.order = q.waits
	at, _ := slices.BinarySearchFunc(o.waiting, p, (*Place).compare)
	o.waiting = slices.Insert(o.waiting, at, p)
	q.update(o)
}

// Hold gives a place of this size to an owner that has not waited for it.
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
			o.turn = 2*q.taken - 1 // its turn is after those that have waited for longer, and before the one that had the last turn
		}
		q.owners[name] = o
	}
	p.owner, p.size = o, size
	return o
}

// Leave ends a wait, and reports whether there was one.
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

// First is the place that comes next, nil for none.
func (q *Queue) First() *Place {
	if len(q.ready) == 0 {
		return nil
	}
	return q.ready[0].waiting[0]
}

// Take gives a place that waits to its owner, and calls its Grant.
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
			q.update(before) // another owner joined
		}
	}
	p.Grant()
}

// Return takes a place that was given away from its owner.
func (q *Queue) Return(p *Place) {
	p.owner.has -= p.size
	q.update(p.owner)
}

// More is how much more the owner of one place has than that of another; same says that they are one.
func (p *Place) More(than *Place) (more int, same bool) {
	return p.owner.has - than.owner.has, p.owner == than.owner
}

// Owner is whose place it is.
func (p *Place) Owner() string { return p.owner.name }

// Waiting is how many places of an owner wait.
func (q *Queue) Waiting(name string) int {
	if o := q.owners[name]; o != nil {
		return len(o.waiting)
	}
	return 0
}

// Has is how much an owner has.
func (q *Queue) Has(name string) int {
	if o := q.owners[name]; o != nil {
		return o.has
	}
	return 0
}

// update puts an owner that has changed where it belongs.
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

// owners implements heap.Interface.
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
