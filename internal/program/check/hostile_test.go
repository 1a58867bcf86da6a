package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/program/check"
	"mcp-code-exec-harness/internal/program/uses"
)

// hostile contains functions that return programs of size n which are costly to read.
var hostile = map[string]func(n int) string{
	"nested calls":      func(n int) string { return nested("tools.crm.getContact(", "", ")", n/22) },
	"nested objects":    func(n int) string { return "tools.crm.getContact(" + nested("{a:", "1", "}", n/4) + ")" },
	"nested arrays":     func(n int) string { return "tools.crm.getContact({contactId:" + nested("[", "1", "]", n/2) + "})" },
	"nested groups":     func(n int) string { return "tools.x" + nested("(", "1", ")", n/2) },
	"nested functions":  func(n int) string { return nested("(()=>", "tools.crm", ")()", n/8) },
	"callbacks":         func(n int) string { return "tools.crm.a()" + nested(".then((x)=>x", "", ")", n/13) },
	"chain of thens":    func(n int) string { return "tools.crm.listDeals()" + strings.Repeat(".then(x=>x)", n/11) },
	"chain of members":  func(n int) string { return "(await tools.crm.listDeals())" + strings.Repeat(".deals", n/6) },
	"chain of awaits":   func(n int) string { return strings.Repeat("await ", n/6) + "tools.crm.listDeals()" },
	"conditions":        func(n int) string { return strings.Repeat("a?tools.crm:", n/12) + "1" },
	"many wrong tools":  func(n int) string { return strings.Repeat("tools.crm.nothing();", n/20) },
	"many wrong fields": func(n int) string { return "const a=await tools.crm.listDeals();" + strings.Repeat("a.nothing;", n/10) },
	"one constant, many times": func(n int) string {
		return "const a={" + strings.Repeat("contactId:1,", n/24) + "};" + strings.Repeat("tools.crm.getContact(a);", n/48)
	},
	"wide list": func(n int) string { return "await Promise.all([" + strings.Repeat("tools.crm,", n/10) + "])" },
	"lists of lists": func(n int) string {
		return "const a=[tools.crm];" + strings.Repeat("{const b=[a,a,a];}", n/18)
	},
	"long names": func(n int) string { return "tools.crm." + strings.Repeat("x", n) + "()" },
}

func nested(open, inner, shut string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
}

// TestHostile reads and checks hostile programs. A long program takes no more than a fixed multiple of the time that its parts take.
func TestHostile(t *testing.T) {
	c := newCatalog(t, "testdata/servers.json")
	const short, factor, limit, tries = 8 << 10, 16, 8, 5
	measure := func(code string, times int) time.Duration {
		began := time.Now()
		for range times {
			used := uses.Read("async function f(){"+code+"}", nil)
			check.Check(t.Context(), used, check.Tools{Catalog: c, Ensure: func(context.Context) {}, Unavailable: func() []string { return nil }})
		}
		return time.Since(began)
	}
	for name, text := range hostile {
		least := float64(limit)
		for try := 0; try < tries && least >= limit; try++ {
			parts := measure(text(short), factor)
			least = min(least, float64(measure(text(short*factor), 1))/float64(parts))
		}
		if least >= limit {
			t.Errorf("%s: a long program takes %d times as long as its parts, or longer", name, limit)
		}
	}
}

// FuzzCheck checks lists of uses that Read never returns, because the lists come from another process.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, 3)
	c := catalog.New()
	f.Fuzz(func(t *testing.T, kinds []byte, step int) {
		var used uses.Uses
		for i, k := range kinds {
			used = append(used, uses.Value{
				Kind: uses.Kind(k % 16), Of: i - step, Name: string(rune(k)), Index: step, Result: step - i, Items: []int{i - 1, step, i + 1},
				Args: []uses.Arg{{Form: uses.Form(k % 10), Of: step, Text: string(rune(k))}},
			})
		}
		check.Check(t.Context(), used, check.Tools{Catalog: c, Ensure: func(context.Context) {}, Unavailable: func() []string { return nil }})
	})
}

// BenchmarkCheck reads and checks a program of average size.
func BenchmarkCheck(b *testing.B) {
	c := newCatalog(b, "testdata/servers.json")
	code := "async function f(){" + strings.Repeat("{const {contacts}=await tools.crm.searchContacts({query:'a',limit:5});for(const c of contacts)console.log(c.name,c.email);}\n", 40) + "}"
	for b.Loop() {
		check.Check(b.Context(), uses.Read(code, nil), check.Tools{Catalog: c, Ensure: func(context.Context) {}, Unavailable: func() []string { return nil }})
	}
}
