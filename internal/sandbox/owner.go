package sandbox

import (
	"container/heap"
	"container/list"
)

// owner is a user of the pool that has runners or waits for some.
type owner struct {
	name      string
	runners   int       // number of runners that are bound to it
	resetting int       // number of leases that are being reset
	idle      []*Lease  // leases that are ready, least recently used first
	waiting   list.List // *waiter values in order of arrival
	fresh     int       // number of waiters that have had no runner before
	want      int       // number of further runners that the owner needs and may have
	since     uint64    // sequence number assigned when the owner began to want a runner; if needy owners have equally many runners, the lowest number comes first
	index     int       // index in Pool.needy; -1 if the owner is not in it
}

// waiter is a waiting Acquire or Reacquire. It gets a lease or an error.
type waiter struct {
	owner  *owner
	again  bool          // whether the call is a Reacquire
	waited bool          // whether no runner was ready at once
	elem   *list.Element // element of owner.waiting; nil once the wait has ended
	answer chan answer   // buffered
}

type answer struct {
	lease *Lease
	err   error
}

// needy is a heap of the owners that want another runner: first those with the fewest runners, then those that have wanted one for the longest. It
// implements heap.Interface.
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

// owner returns the owner of the given name, and creates it if needed. After changing the owner, the caller must call update. p.mu must be held
// for owner and for the methods below.
func (p *Pool) owner(name string) *owner {
	o := p.owners[name]
	if o == nil {
		o = &owner{name: name, index: -1}
		p.owners[name] = o
	}
	return o
}

// update recomputes, after a change of an owner, how many runners the owner wants, its place in needy, and whether the pool keeps the owner.
func (p *Pool) update(o *owner) {
	// A runner that is being reset will be ready before a new one has started.
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

// counted adds n to the counts of waiters that MaxWaiting and MaxOwnerWaiting limit. It does nothing for a Reacquire, which has no limit.
func (p *Pool) counted(w *waiter, n int) {
	if !w.again {
		p.waiting += n
		w.owner.fresh += n
	}
}

// answer ends the wait of a waiter.
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

// first returns the waiter of an owner that has waited longest. There must be one.
func (o *owner) first() *waiter { return o.waiting.Front().Value.(*waiter) }
