package detect

import (
	"flag"
	"fmt"
	"os"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
)

var update = flag.Bool("update", false, "write phones.txt")

// TestPhonePlan compares phones.txt with libphonenumber's metadata.
func TestPhonePlan(t *testing.T) {
	t.Parallel()
	metadata, err := phonenumbers.MetadataCollection()
	if err != nil {
		t.Fatal(err)
	}
	sets := map[int]*[maxNational + 1]map[int]bool{}
	for _, region := range metadata.GetMetadata() {
		code := int(region.GetCountryCode())
		if sets[code] == nil {
			sets[code] = &[maxNational + 1]map[int]bool{}
		}
		for _, desc := range []*phonenumbers.PhoneNumberDesc{
			region.GetFixedLine(), region.GetMobile(), region.GetTollFree(), region.GetPremiumRate(), region.GetSharedCost(),
			region.GetPersonalNumber(), region.GetVoip(), region.GetPager(), region.GetUan(), region.GetVoicemail(),
		} {
			if desc.GetNationalNumberPattern() != "" && desc.GetNationalNumberPattern() != "NA" {
				addPrefixes(t, sets[code], desc)
			}
		}
	}
	var lines []string
	for code, lengths := range sets {
		line := fmt.Sprint(code)
		for length, set := range lengths {
			if len(set) > 0 {
				line += fmt.Sprintf(" %d:%s", length, ranges(set))
			}
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	want := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile("phones.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if phonePlan != want {
		t.Error("phones.txt is not what libphonenumber says; run: go test -run TestPhonePlan -update ./internal/pii/detect")
	}
}

// TestNumbersOfEveryCountry checks the recall for libphonenumber's examples in the forms in which people write them.
func TestNumbersOfEveryCountry(t *testing.T) {
	t.Parallel()
	d, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		format phonenumbers.PhoneNumberFormat
		text   string
		recall float64
	}{
		{"E.164", phonenumbers.E164, "got %s today", 1},
		{"international", phonenumbers.INTERNATIONAL, "got %s today", 1},
		{"RFC 3966", phonenumbers.RFC3966, `<a href="%s">`, 1},
		{"national, with a word", phonenumbers.NATIONAL, "Tel: %s", 0.95},
		{"national, key", phonenumbers.NATIONAL, `{"phone":"%s"}`, 0.95},
		// Without words, numbers in national form look like amounts and rows of numbers.
		{"national, alone", phonenumbers.NATIONAL, "%s", 0.45},
		{"national, in a sentence", phonenumbers.NATIONAL, "Please check %s today.", 0.45},
	} {
		found, all := 0.0, 0.0
		for region := range phonenumbers.GetSupportedRegions() {
			for _, kind := range []phonenumbers.PhoneNumberType{phonenumbers.MOBILE, phonenumbers.FIXED_LINE, phonenumbers.TOLL_FREE} {
				example := phonenumbers.GetExampleNumberForType(region, kind)
				if example == nil {
					continue
				}
				number := phonenumbers.Format(example, c.format)
				all++
				if slices.ContainsFunc(d.Find(fmt.Sprintf(c.text, number)), func(s Span) bool {
					return s.Type == "PHONE" && (s.End-s.Start)*10 >= len(number)*6
				}) {
					found++
				}
			}
		}
		if t.Logf("%s: recall %.3f of %.0f", c.name, found/all, all); found/all < c.recall {
			t.Errorf("%s: recall %.3f, want %.2f", c.name, found/all, c.recall)
		}
	}
}

// addPrefixes adds the first three digits of all numbers that match a description.
func addPrefixes(t *testing.T, lengths *[maxNational + 1]map[int]bool, desc *phonenumbers.PhoneNumberDesc) {
	re, err := syntax.Parse(desc.GetNationalNumberPattern(), syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	a := automaton{prog}
	first := a.closure([]uint32{uint32(prog.Start)})
	for prefix := range 1000 {
		states := first
		for _, d := range []int{prefix / 100, prefix / 10 % 10, prefix % 10} {
			states = a.step(states, d, d)
		}
		for n := 3; n <= maxNational && len(states) > 0; n++ {
			if a.matches(states) {
				if lengths[n] == nil {
					lengths[n] = map[int]bool{}
				}
				lengths[n][prefix] = true
			}
			states = a.step(states, 0, 9)
		}
	}
}

// automaton matches a compiled regular expression one digit at a time, with sets of states.
type automaton struct{ *syntax.Prog }

func (a automaton) closure(from []uint32) []uint32 {
	var all []uint32
	for stack := from; len(stack) > 0; {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if slices.Contains(all, pc) {
			continue
		}
		all = append(all, pc)
		switch inst := a.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			stack = append(stack, inst.Out)
		}
	}
	return all
}

// step returns the states that a digit between low and high leads to.
func (a automaton) step(states []uint32, low, high int) []uint32 {
	var next []uint32
	for _, pc := range states {
		inst := a.Inst[pc]
		switch inst.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			for d := low; d <= high; d++ {
				if inst.MatchRune(rune('0' + d)) {
					next = append(next, inst.Out)
					break
				}
			}
		}
	}
	return a.closure(next)
}

func (a automaton) matches(states []uint32) bool {
	return slices.ContainsFunc(states, func(pc uint32) bool { return a.Inst[pc].Op == syntax.InstMatch })
}

func ranges(set map[int]bool) string {
	var all []string
	for from := 0; from < 1000; from++ {
		if !set[from] {
			continue
		}
		to := from
		for set[to+1] {
			to++
		}
		if r := fmt.Sprintf("%03d", from); to == from {
			all = append(all, r)
		} else {
			all = append(all, fmt.Sprintf("%s-%03d", r, to))
		}
		from = to
	}
	return strings.Join(all, ",")
}

// TestCountries compares the countries of calling codes with libphonenumber's metadata.
func TestCountries(t *testing.T) {
	t.Parallel()
	for text := range plans() {
		code, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		want := phonenumbers.GetRegionCodeForCountryCode(code)
		if want == "001" { // This is the region of calling codes of no country.
			want = ""
		}
		if got, ok := Country("+" + text + "2025550123;ext=1"); got != want || ok != (want != "") {
			t.Errorf("+%s is of %q, %v; want %q", text, got, ok, want)
		}
	}
	if n := len(countries()); n > len(plans()) {
		t.Errorf("%d countries have %d calling codes", n, len(plans()))
	}
	for _, phone := range []string{"", "+", "2025550123", "+0", "+99", "+9990000000"} {
		if got, ok := Country(phone); ok {
			t.Errorf("%q is of %s", phone, got)
		}
	}
}
