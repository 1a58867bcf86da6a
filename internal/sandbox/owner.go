package sandbox

import (
	"container/heap"
	"container/list"
)

// owner is a user of the pool that has runners or waits for some.
type owner struct {
	name      string
	runners   int       // bound to it
	resetting int       // leases that are being reset
	idle      []*Lease  // leases that are ready, least recently used first
	waiting   list.List // *waiter values in order of arrival
	fresh     int       // waiters that have had no runner before
	want      int       // runners that it needs and may have besides its own
	since     uint64    // orders needy owners with equally many runners
	index     int       // index in the pool's needy; -1: none
}

// waiter is an Acquire that waits. It gets a lease or an error.
type waiter struct {
	owner  *owner
	again  bool          // a Reacquire
	waited bool          // reports that it had to wait for a runner
	elem   *list.Element // element of owner.waiting; nil once it was answered
	answer chan answer   // buffered
}

type answer struct {
	lease *Lease
	err   error
}

// needy are the owners that want another runner: those with the fewest runners first, then those that have wanted one for
// the longest. It implements heap.Interface.
type needy []*owner

func (n needy) Len() int { return len(n) }

func (n needy) Less(i, j int) bool {
	if n[i].runners != n[j].runners {
		return n[i].runners < n[j].runners
	}
	return n[i].since < n[j].since
}

func (n needy) Swap(i, j int) {
	n[i], n[j] = n[j], n[i]
	n[i].index, n[j].index = i, j
}

func (n *needy) Push(x any) {
	o := x.(*owner)
	o.index = len(*n)
	*n = append(*n, o)
}

func (n *needy) Pop() any {
	last := len(*n) - 1
	o := (*n)[last]
	(*n)[last] = nil
	*n = (*n)[:last]
	o.index = -1
	return o
}

// owner returns the owner of a name. The caller calls update when it has changed it. p.mu is held, here and below.
func (p *Pool) owner(name string) *owner {
	o := p.owners[name]
	if o == nil {
		o = &owner{name: name, index: -1}
		p.owners[name] = o
	}
	return o
}

// update brings what the pool knows of an owner up to date after the owner has changed.
func (p *Pool) update(o *owner) {
	// A runner that is being reset is ready before a new one has started.
	want := max(0, min(o.waiting.Len()-o.resetting, p.opt.PerOwner-o.runners))
	p.wanted += want - o.want
	o.want = want
	switch {
	case want > 0 && o.index < 0:
		p.sequence++
		o.since = p.sequence
		heap.Push(&p.needy, o)
	case want > 0:
		heap.Fix(&p.needy, o.index)
	case o.index >= 0:
		heap.Remove(&p.needy, o.index)
	}
	if o.runners == 0 && o.waiting.Len() == 0 {
		delete(p.owners, o.name)
	}
}

// counted adds a waiter to those that are bounded, or takes it off them.
func (p *Pool) counted(w *waiter, n int) {
	if !w.again {
		p.waiting += n
		w.owner.fresh += n
	}
}

// answer ends a wait.
func (p *Pool) answer(w *waiter, a answer) {
	w.owner.waiting.Remove(w.elem)
	w.elem = nil
	p.counted(w, -1)
	if a.lease != nil {
		if w.waited && a.lease.runs == 0 {
			p.counts.Cold++
		}
		p.lend(a.lease)
	}
	w.answer <- a
}

// first returns the waiter of an owner that has waited longest; it must have one.
func (o *owner) first() *waiter { return o.waiting.Front().Value.(*waiter) }
