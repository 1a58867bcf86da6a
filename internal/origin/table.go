package origin

import "slices"

// sentMark is the bit in the place of a value that is set if a program has sent the value to a server. The other bits are the number of the set of
// origins that said the value.
const sentMark = 1 << 15

// table is a hash table of values with open addressing; its slots are called places. The zero table has no places, so it is both empty and full.
type table struct {
	keys []uint64 // hashes; 0 means that the place is free
	sets []uint16
	used int
}

// firstTable is the initial number of places of a table.
const firstTable = 256

// bytesOf returns the size in bytes of a table with the given number of places.
func bytesOf(places int) int64 { return int64(places) * 10 }

// full reports whether the table must grow before the next value.
func (t *table) full() bool { return t.used >= len(t.keys)/4*3 }

func (t *table) next() int { return max(firstTable, 2*len(t.keys)) }

func (t *table) grow(places int) {
	old := *t
	t.keys, t.sets, t.used = make([]uint64, places), make([]uint16, places), 0
	for i, h := range old.keys {
		if h != 0 {
			*t.place(h) = old.sets[i]
		}
	}
}

// place finds or creates the place of a hash. The table must not be full.
func (t *table) place(h uint64) *uint16 {
	at := t.search(h)
	if t.keys[at] == 0 {
		t.keys[at] = h
		t.used++
	}
	return &t.sets[at]
}

func (t *table) get(h uint64) uint16 {
	if len(t.keys) == 0 {
		return 0
	}
	at := t.search(h)
	if t.keys[at] == 0 {
		return 0
	}
	return t.sets[at]
}

func (t *table) search(h uint64) int {
	mask := uint64(len(t.keys) - 1)
	at := h & mask
	for t.keys[at] != 0 && t.keys[at] != h {
		at = (at + 1) & mask
	}
	return int(at)
}

// names assigns numbers to the names of origins and to the sets of these names. Set 0 is empty. Set 1 contains only the placeholder for unknown
// names.
type names struct {
	numbers map[string]uint16
	all     []string
	sets    [][]uint16
	known   map[string]uint16
	steps   map[[2]uint16]uint16 // number of the set that results from adding a name to a set, by the numbers of the set and of the name
	last    struct{ set, number, to uint16 }
}

// unknown is the number of the placeholder for names that are not recorded; user is the number of User.
const (
	unknown uint16 = iota
	user
)

func newNames() names {
	return names{
		numbers: map[string]uint16{"": unknown, User: user}, all: []string{"", User}, sets: [][]uint16{nil, {unknown}},
		known: map[string]uint16{"": 0, "\x00\x00": 1}, steps: map[[2]uint16]uint16{}, last: struct{ set, number, to uint16 }{0, unknown, 1},
	}
}

// named returns the number of a name.
func (n *names) named(name string) uint16 {
	if number, ok := n.numbers[name]; ok {
		return number
	}
	if len(n.all) >= 1<<16-1 {
		return unknown
	}
	number := uint16(len(n.all))
	n.all = append(n.all, name)
	n.numbers[name] = number
	return number
}

// add returns the number of the set that results from adding a name to a set.
func (n *names) add(set, number uint16) uint16 {
	if n.last.set == set && n.last.number == number {
		return n.last.to
	}
	step := [2]uint16{set, number}
	to, ok := n.steps[step]
	if !ok {
		to = n.step(set, number)
		n.steps[step] = to
	}
	n.last.set, n.last.number, n.last.to = set, number, to
	return to
}

func (n *names) step(set, number uint16) uint16 {
	is := n.sets[set]
	tools := len(is)
	for _, special := range []uint16{unknown, user} {
		if slices.Contains(is, special) {
			tools--
		}
	}
	if number > user && tools >= MaxOrigins && !slices.Contains(is, number) {
		number = unknown
	}
	at, has := slices.BinarySearch(is, number)
	if has {
		return set
	}
	return n.number(slices.Insert(slices.Clone(is), at, number))
}

// number returns the number of a set of names, and assigns one if the set is new. If no number is free, it returns 1, the number of the set that
// contains only the placeholder for unknown names.
func (n *names) number(set []uint16) uint16 {
	text := make([]byte, 0, 2*len(set))
	for _, number := range set {
		text = append(text, byte(number>>8), byte(number))
	}
	if known, ok := n.known[string(text)]; ok {
		return known
	}
	if len(n.sets) >= sentMark {
		return 1
	}
	made := uint16(len(n.sets))
	n.sets = append(n.sets, set)
	n.known[string(text)] = made
	return made
}

func (n *names) join(a, b uint16) uint16 {
	for _, number := range n.sets[b] {
		a = n.add(a, number)
	}
	return a
}

// of returns the names in a set; more reports whether the set contains unknown names.
func (n *names) of(set uint16) (all []string, more bool) {
	for _, number := range n.sets[set] {
		if number == unknown {
			more = true
			continue
		}
		all = append(all, n.all[number])
	}
	return all, more
}
