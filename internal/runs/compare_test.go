package runs

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// calls returns calls that are written as name, arguments and answer.
func calls(text string) (all []*digested) {
	for i, one := range strings.Fields(text) {
		part := strings.Split(one, ":")
		all = append(all, &digested{CallLine{N: i + 1, Name: part[0]}, sha256.Sum256([]byte(part[1])), sha256.Sum256([]byte(part[2]))})
	}
	return all
}

func aligned(first, second string) []CallPair {
	return align(calls(first), calls(second))
}

func paired(first, second string) string {
	var got []string
	for _, p := range aligned(first, second) {
		text := ""
		if p.First != nil {
			text = fmt.Sprint(p.First.N)
		}
		text += "-"
		if p.Second != nil {
			text += fmt.Sprint(p.Second.N)
		}
		got = append(got, text+" "+p.Differs)
	}
	return strings.Join(got, ", ")
}

// Calls of two runs are aligned in their order, even if one run has more of them.
func TestPairs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, first, second, want string }{
		{"none", "", "", ""},
		{"the same", "a:1:x b:2:y", "a:1:x b:2:y", "1-1 nothing, 2-2 nothing"},
		{"another answer", "a:1:x", "a:1:y", "1-1 answer"},
		{"other arguments", "a:1:x b:1:x", "a:2:x b:1:x", "1-1 arguments, 2-2 nothing"},
		{"one more in the middle", "a:1:x a:3:x", "a:1:x a:2:x a:3:x", "1-1 nothing, -2 onlySecond, 2-3 nothing"},
		{"one fewer", "a:1:x b:2:x c:3:x", "a:1:x c:3:x", "1-1 nothing, 2- onlyFirst, 3-2 nothing"},
		{"nothing in common", "a:1:x", "b:1:x", "1- onlyFirst, -1 onlySecond"},
		{"other arguments between equal calls", "a:1:x b:1:x c:1:x", "a:1:x b:2:x c:1:x", "1-1 nothing, 2-2 arguments, 3-3 nothing"},
	} {
		if got := paired(c.first, c.second); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Each of many calls is in one pair, in its order, even if the runs have little in common and the comparison does not search for the shortest difference.
func TestPairsAreWhole(t *testing.T) {
	t.Parallel()
	text := func(step int) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "t%d:%d:x ", i*step%97, i%5)
		}
		return b.String()
	}
	first, second := 0, 0
	for _, p := range aligned(text(3), text(7)) {
		if p.First != nil {
			if first++; p.First.N != first {
				t.Fatalf("call %d of the first run where %d belongs", p.First.N, first)
			}
		}
		if p.Second != nil {
			if second++; p.Second.N != second {
				t.Fatalf("call %d of the second run where %d belongs", p.Second.N, second)
			}
		}
		if both := p.First != nil && p.Second != nil; both && p.First.Name != p.Second.Name || both != (p.Differs == SameCall || p.Differs == OtherArguments || p.Differs == OtherAnswer) {
			t.Fatalf("a pair that %s: %v, %v", p.Differs, p.First, p.Second)
		}
	}
	if first != 5000 || second != 5000 {
		t.Errorf("%d and %d calls", first, second)
	}
}
