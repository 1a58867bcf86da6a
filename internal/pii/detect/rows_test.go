package detect_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// withLuhn appends the check digit.
func withLuhn(digits string) string {
	for c := range "0123456789" {
		if d := digits + fmt.Sprint(c); luhn(d) {
			return d
		}
	}
	panic("there is always a check digit")
}

func groupsOf(digits, sep string, lengths ...int) string {
	var all []string
	for _, n := range lengths {
		all = append(all, digits[:n])
		digits = digits[n:]
	}
	return strings.Join(all, sep)
}

func bareCard(r *rand.Rand) string {
	prefix := []string{"4", "4", "51", "55", "2221", "2720", "34", "37", "6011", "65", "3528", "3589", "36", "62"}[r.IntN(14)]
	size := 16
	switch prefix {
	case "34", "37":
		size = 15
	case "36":
		size = 14
	case "62":
		size = []int{16, 19}[r.IntN(2)]
	}
	return withLuhn(prefix + pick(r, digits, size-1-len(prefix)))
}

func cardOf(r *rand.Rand) string {
	d := bareCard(r)
	sep := []string{" ", "-", "."}[r.IntN(3)]
	switch {
	case r.IntN(2) == 0:
		return d
	case len(d) == 16:
		return groupsOf(d, sep, 4, 4, 4, 4)
	case len(d) == 15:
		return groupsOf(d, sep, 4, 6, 5)
	case len(d) == 19:
		return groupsOf(d, sep, 4, 4, 4, 4, 3)
	}
	return groupsOf(d, sep, 4, 6, 4)
}

func bareSSN(r *rand.Rand) string {
	area := 1 + r.IntN(899)
	if area == 666 {
		area = 667
	}
	return fmt.Sprintf("%03d%02d%04d", area, 1+r.IntN(99), 1+r.IntN(9999))
}

func ssnOf(r *rand.Rand) string { return groupsOf(bareSSN(r), "-", 3, 2, 4) }

func ibanOf(r *rand.Rand) string {
	formats := []struct{ country, account string }{
		{"DE", pick(r, digits, 18)},
		{"FR", pick(r, digits, 23)},
		{"GB", pick(r, capitals[:26], 4) + pick(r, digits, 14)},
		{"NL", pick(r, capitals[:26], 4) + pick(r, digits, 10)},
		{"ES", pick(r, digits, 20)},
		{"CH", pick(r, digits, 17)},
		{"PL", pick(r, digits, 24)},
		{"MT", pick(r, capitals[:26], 4) + pick(r, digits, 5) + pick(r, capitals, 18)},
	}
	f := formats[r.IntN(len(formats))]
	var number strings.Builder
	for _, c := range f.account + f.country + "00" {
		if c >= 'A' {
			fmt.Fprint(&number, int(c-'A')+10)
		} else {
			number.WriteRune(c)
		}
	}
	n, _ := new(big.Int).SetString(number.String(), 10)
	value := fmt.Sprintf("%s%02d%s", f.country, 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), f.account)
	if r.IntN(3) > 0 {
		return value
	}
	var all []string
	for part := range slices.Chunk([]byte(value), 4) {
		all = append(all, string(part))
	}
	return strings.Join(all, " ")
}

func ipOf(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf("2001:db8:%x::%x", 1+r.IntN(65535), 4096+r.IntN(61439))
	case 1:
		return fmt.Sprintf("192.168.%d.%d", r.IntN(256), r.IntN(256))
	}
	return fmt.Sprintf("%d.%d.%d.%d", 11+r.IntN(240), r.IntN(256), r.IntN(256), 1+r.IntN(254))
}

func emailOf(r *rand.Rand) string {
	names := []string{"ann", "bo.lee", "c_wu", "dan+x", "e-m", "f9", "jo.van.dam"}
	hosts := []string{"example.com", "mail.example.org", "exa-mple.co.uk", "corp.de", "uni.example.edu", "büro.example.de", "café.fr"}
	return names[r.IntN(len(names))] + pick(r, digits, r.IntN(3)) + "@" + hosts[r.IntN(len(hosts))]
}

// dressing are texts around a value. The value replaces %s, and another number replaces each %n.
var dressing = []string{
	"%s", "番号は%sです", "客户卡号%s，请退款", "卡%s", "サーバー%sが落ちた", "%s입니다", "번호는%s입니다", "номер%sупал", "Счёт%s.", "หมายเลข%sครับ", "رقم%sهنا", "नंबर%sहै",
	"(%s)", "[%s]", "{%s}", "<%s>", "「%s」", "“%s”", "«%s»", "'%s'", "`%s`", "|%s|", "a (see %s) b", "Order %s", "order no. %s shipped", "part-time employee %s", "tracking number: %s",
	"invoice #%s", "ref %s", "batch %s", "size %s", "%s, and more", "it is %s.", "why %s?", "x=%s;", "id:%s", "\t%s\n", "%s\u0301", "«\u200b%s\u200b»", "see %s\n\nnext",
	"{\"id\":\"%s\"}", "{\"order\":{\"ref\":\"%s\"}}", "{\"count\":\"%s\",\"n\":%n}", "{\"a\":[1,\"%s\"],\"b\":null}", "{\"columns\":[\"id\",\"a\",\"b\"],\"rows\":[[%n,\"%s\",\"x\"]]}",
	"[{\"total\":%n,\"code\":\"%s\"}]", "id,value,n\n%n,%s,%n\n", "id;value;n\n%n;%s;%n", "| id | value |\n|---|---|\n| %n | %s |", "a\tb\n%n\t%s\n", "INSERT INTO t (id, x) VALUES (%n, '%s');",
	"2026-11-26T10:11:12Z INFO got %s in %n ms", "\"note\": \"called about %s today\"", "<td>%s</td>", "?q=%s&n=%n", "{\\\"x\\\":\\\"%s\\\"}",
}

// glued are words that contain a value.
var glued = []string{"x%sx", "scan_%s.pdf", "id%s", "%sabc", "Order%s", "file_%s_v", "no%s", "%s.txt", "%skm"}

// labelled are texts around digits without separators, in which names or the digits themselves show the type, by type.
var labelled = map[string][]string{
	"US_SSN": {
		"{\"ssn\":\"%s\"}", "{\"ssn\":%s}", "{\"ssns\":[\"%s\"]}", "{\"socialSecurityNumber\":\"%s\"}", "{\"ssn\":%s.0}", "SSN %s", "ssn=%s", "id,name,ssn\n%n,Ann,%s\n", "id;ssn\n%n;%s\n%n;none",
		"{\"columns\":[\"id\",\"ssn\"],\"rows\":[[%n,%s]]}", "{\"columns\":[{\"name\":\"id\"},{\"name\":\"ssn\"}],\"rows\":[[%n,\"%s\"]]}", "{\"rows\":[[%n,%s]],\"headers\":[\"id\",\"ssn\"]}",
		"[[\"id\",\"ssn\"],[%n,%s]]", "| id | SSN |\n|---|---|\n| %n | %s |", "INSERT INTO p (id, ssn) VALUES (%n, %s);", "INSERT INTO p (id, ssn) VALUES (1, 2), (%n, '%s')", "id\tssn\n%n\t%s",
		"id,ssn,x\n%n,%s.0,1\n", "{\"t\":\"id,ssn\\n%n,%s\"}", "{\"fields\":[\"id\",\"ssn\"],\"data\":[{\"values\":[%n,\"%s\"]}]}", "{\"name\":\"ssn\",\"value\":\"%s\"}", "ssn\n%s\n",
		"    id        ssn\n0 %n %s", "{\"ssn\":{\"0\":%s}}", "SSNは%s", "{\"data\":{\"columns\":[\"id\",\"ssn\"],\"values\":[[%n,\"%s\"]]}}",
	},
	"CREDIT_CARD": {
		"{\"card\":%s}", "{\"cards\":[%s]}", "{\"cards\":[\"%s\"]}", "{\"n\":%s}", "{\"card\":%s.0}", "%s.0", "id,card\n%n,%s.0\n", "{\"columns\":[\"id\",\"card\"],\"rows\":[[%n,%s]]}", "{\"rows\":[[%n,%s.0]]}",
		"[%n,%s,null]", "{\"orderId\":%s}", "INSERT INTO p (id, c) VALUES (%n, %s);",
	},
}

// row is a text with a value from start to end.
type row struct {
	kind, text string
	start, end int
}

func dress(r *rand.Rand, kind, form, value string) row {
	for strings.Contains(form, "%n") {
		form = strings.Replace(form, "%n", fmt.Sprint(integer(r)%100_000), 1)
	}
	start := strings.Index(form, "%s")
	return row{kind, strings.Replace(form, "%s", value, 1), start, start + len(value)}
}

func rows(r *rand.Rand, n int) []row {
	values := map[string]maker{"US_SSN": ssnOf, "CREDIT_CARD": cardOf, "IBAN": ibanOf, "IP_ADDRESS": ipOf, "EMAIL": emailOf}
	bare := map[string]maker{"US_SSN": bareSSN, "CREDIT_CARD": bareCard}
	kinds := []string{"CREDIT_CARD", "EMAIL", "IBAN", "IP_ADDRESS", "US_SSN"}
	all := make([]row, n)
	for i := range all {
		kind := kinds[i%len(kinds)]
		switch forms := labelled[kind]; {
		case forms != nil && r.IntN(3) == 0:
			all[i] = dress(r, kind, forms[r.IntN(len(forms))], bare[kind](r))
		case kind != "EMAIL" && r.IntN(6) == 0:
			value := values[kind](r)
			for strings.Contains(value, ":") || kind == "CREDIT_CARD" && len(value) < 15 { // An IPv6 address may begin with letters.
				value = values[kind](r)
			}
			all[i] = dress(r, kind, glued[r.IntN(len(glued))], value)
		default:
			all[i] = dress(r, kind, dressing[r.IntN(len(dressing))], values[kind](r))
		}
		if kind == "US_SSN" && r.IntN(20) == 0 {
			all[i] = dress(r, kind, "社会保障番号%sです", strings.ReplaceAll(ssnOf(r), "-", "ー"))
		}
	}
	return all
}

// TestValuesInRows checks values between letters of several scripts, in words, tables, JSON and brackets, after words that mean something else, and
// as JSON numbers.
func TestValuesInRows(t *testing.T) {
	t.Parallel()
	n := 5_000
	if long() {
		n = 100_000
	}
	for _, seed := range []uint64{3, 4} {
		measureRows(t, rows(rand.New(rand.NewPCG(seed, 27)), n))
	}
}

// measureRows fails the test if more than one in a hundred values of a type is not fully covered by spans, or if the harmonic mean of precision and
// recall is below 0.97.
func measureRows(t *testing.T, all []row) {
	t.Helper()
	d := std(t)
	type counts struct{ all, found, leaked, wrong int }
	byKind := map[string]*counts{}
	for _, row := range all {
		if byKind[row.kind] == nil {
			byKind[row.kind] = &counts{}
		}
	}
	for _, row := range all {
		c := byKind[row.kind]
		c.all++
		hit := false
		covered := row.start
		for _, s := range d.Find(row.text) {
			overlap := min(s.End, row.end) - max(s.Start, row.start)
			union := max(s.End, row.end) - min(s.Start, row.start)
			if s.Start <= covered && s.End > covered {
				covered = s.End
			}
			switch {
			case s.Type == row.kind && overlap*2 >= union && !hit:
				hit = true
			case byKind[s.Type] != nil:
				byKind[s.Type].wrong++
				t.Logf("%s is no %s in %q", row.text[s.Start:s.End], s.Type, row.text)
			}
		}
		if hit {
			c.found++
		}
		if covered < row.end {
			c.leaked++
			if c.leaked < 30 {
				got, values := marked(d, row.text)
				t.Logf("%s leaks: %q %v", row.kind, got, values)
			}
		} else if !hit {
			_, values := marked(d, row.text)
			t.Logf("%s has another type: %q %v", row.kind, row.text, values)
		}
	}
	for kind, c := range byKind {
		precision, recall := float64(c.found)/float64(max(1, c.found+c.wrong)), float64(c.found)/float64(c.all)
		f1, leak := 2*precision*recall/max(precision+recall, 1e-9), float64(c.leaked)/float64(c.all)
		t.Logf("%-12s %6d precision %.4f recall %.4f F1 %.4f leak %.4f", kind, c.all, precision, recall, f1, leak)
		if leak > 0.01 || f1 < 0.97 {
			t.Errorf("%s: F1 %.3f, leak %.3f", kind, f1, leak)
		}
	}
}
