package detect_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// long reports whether the tests of generated texts use the long series.
func long() bool { return os.Getenv("HARNESS_TEST_LONG") != "" }

func instant(r *rand.Rand) time.Time {
	zone := time.FixedZone("", (r.IntN(27)-12)*3600)
	return time.Unix(1_000_000_000+r.Int64N(900_000_000), r.Int64N(1e9)).In(zone)
}

// integer returns a number below a power of ten with one to nine zeros. Each of these powers is equally likely.
func integer(r *rand.Rand) int {
	most := 10
	for range r.IntN(9) {
		most *= 10
	}
	return r.IntN(most)
}

func integers(r *rand.Rand, n int, sep string, value func(*rand.Rand) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = value(r)
	}
	return strings.Join(all, sep)
}

func small(r *rand.Rand) string {
	return strconv.Itoa(r.IntN([]int{10, 100, 400, 1000, 3000, 10000}[r.IntN(6)]))
}

// spacedOut groups the digits of a number in threes.
func spacedOut(n int, sep string) string {
	d := strconv.Itoa(n)
	for i := len(d) - 3; i > 0; i -= 3 {
		d = d[:i] + sep + d[i:]
	}
	return d
}

func lines(r *rand.Rand, most int, line func(*rand.Rand) string) string {
	return integers(r, 1+r.IntN(most), "\n", line)
}

func uuid(r *rand.Rand) string {
	h := pick(r, lowerHex, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func dump(r *rand.Rand) string {
	data := make([]byte, 16+r.IntN(48))
	for i := range data {
		data[i] = byte(r.IntN(256))
		if r.IntN(2) == 0 {
			data[i] = byte(' ' + r.IntN(90))
		}
	}
	switch r.IntN(4) {
	case 0:
		return hex.Dump(data)
	case 1: // od -x, xxd
		var out strings.Builder
		for at := 0; at+16 <= len(data); at += 16 {
			fmt.Fprintf(&out, "%08x:", at)
			for i := at; i < at+16; i += 2 {
				fmt.Fprintf(&out, " %02x%02x", data[i], data[i+1])
			}
			out.WriteString("  ................\n")
		}
		return out.String()
	case 2: // od
		var out strings.Builder
		for at := 0; at+16 <= len(data); at += 16 {
			fmt.Fprintf(&out, "%07o", at)
			for i := at; i < at+16; i += 2 {
				fmt.Fprintf(&out, " %06o", int(data[i])<<8|int(data[i+1]))
			}
			out.WriteString("\n")
		}
		return out.String()
	}
	return fmt.Sprintf("%d", data)
}

func matrix(r *rand.Rand) string {
	columns, most := 2+r.IntN(7), []int{10, 100, 1000, 5000}[r.IntN(4)]
	width := len(strconv.Itoa(most))
	format, sep := []string{"%d", "%*d", "%0*d", "%.3f"}[r.IntN(4)], []string{" ", "  ", "\t", ", ", ",", "; ", " | "}[r.IntN(7)]
	return lines(r, 6, func(r *rand.Rand) string {
		return integers(r, columns, sep, func(r *rand.Rand) string {
			switch format {
			case "%d":
				return strconv.Itoa(r.IntN(most))
			case "%.3f":
				return fmt.Sprintf("%.3f", r.Float64()*float64(most))
			}
			return fmt.Sprintf(format, width, r.IntN(most))
		})
	})
}

func table(r *rand.Rand) string {
	names := []string{"id", "count", "total", "size", "ms", "score", "year", "qty", "price", "requests", "p50", "p99", "day", "rows", "bytes", "name", "value", "x", "y"}
	n := 2 + r.IntN(5)
	head := make([]string, n)
	for i := range head {
		head[i] = names[r.IntN(len(names))]
	}
	cell := func(r *rand.Rand) string {
		switch r.IntN(6) {
		case 0:
			return fmt.Sprintf("%.2f", r.Float64()*1000)
		case 1:
			return instant(r).Format("2006-01-02")
		}
		return strconv.Itoa(integer(r))
	}
	row := func(sep string) string { return integers(r, n, sep, cell) }
	var out strings.Builder
	switch r.IntN(4) {
	case 0:
		out.WriteString("| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat("---|", n) + "\n")
		for range 1 + r.IntN(5) {
			out.WriteString("| " + row(" | ") + " |\n")
		}
	case 1:
		sep := []string{",", ";", "\t"}[r.IntN(3)]
		out.WriteString(strings.Join(head, sep) + "\n")
		for range 1 + r.IntN(5) {
			out.WriteString(row(sep) + "\n")
		}
	case 2:
		rows := make([][]int, 1+r.IntN(4))
		for i := range rows {
			for range n {
				rows[i] = append(rows[i], integer(r))
			}
		}
		text, _ := json.Marshal(map[string]any{"columns": head, "rows": rows})
		out.Write(text)
	default:
		out.WriteString("INSERT INTO t (" + strings.Join(head, ", ") + ") VALUES (" + row(", ") + "), (" + row(",") + ");")
	}
	return out.String()
}

func logLine(r *rand.Rand) string {
	at := instant(r)
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf("%s host kernel: [%5d.%06d] usb 1-%d: new device number %d", at.Format(time.Stamp), r.IntN(90000), r.IntN(1e6), r.IntN(9), r.IntN(90))
	case 1:
		return fmt.Sprintf("%d INFO worker %d took %d ms", at.Unix(), r.IntN(64), r.IntN(90000))
	case 2:
		return fmt.Sprintf("[%d.%03d] GET /items/%d %d %d %d", at.Unix(), r.IntN(1000), r.IntN(1e6), 200+r.IntN(300), r.IntN(5000), r.IntN(100))
	case 3:
		return fmt.Sprintf(`{"ts":%d,"level":"info","took":%d,"size":%d}`, at.UnixMilli(), r.IntN(5000), r.IntN(1<<31))
	case 4:
		return fmt.Sprintf("%s pid=%d tid=%d heap %d -> %d (%d%%)", at.Format(time.RFC3339Nano), r.IntN(65536), r.IntN(65536), r.IntN(1e9), r.IntN(1e9), r.IntN(100))
	case 5:
		return fmt.Sprintf(`- - [%s] "GET /a HTTP/1.1" %d %d`, at.Format("02/Jan/2006:15:04:05 -0700"), 200+r.IntN(300), r.IntN(100000))
	case 6:
		return fmt.Sprintf("%s,%03d DEBUG 0x%x offset %d length %d", at.Format("2006-01-02 15:04:05"), r.IntN(1000), r.Uint32(), r.IntN(1e9), r.IntN(1e6))
	}
	return fmt.Sprintf("%s %d %d %d", at.Format("15:04:05.000"), r.IntN(1000), r.IntN(100), r.IntN(10000))
}

func code(r *rand.Rand) string {
	a, b, c := integer(r), integer(r), integer(r)
	switch r.IntN(10) {
	case 0:
		return fmt.Sprintf("for (let i = %d; i < %d; i += %d) total += rows[i]", a, b, c)
	case 1:
		return fmt.Sprintf("const m = [[%d, %d], [%d, %d]]; x = %d - %d / %d", a, b, c, a, b, c, a)
	case 2:
		return fmt.Sprintf("    at run (/app/src/index.js:%d:%d)\n    at node:internal/main:%d:%d", r.IntN(5000), r.IntN(200), r.IntN(999), r.IntN(99))
	case 3:
		return fmt.Sprintf("+'%.9f'; Number(\"%d\"); parseInt('%d', 10)", r.Float64(), a, b)
	case 4:
		return fmt.Sprintf("mask = 0x%x & 0b%b | 0o%o; y = x - %d - %d", a, b, c, a, b)
	case 5:
		return fmt.Sprintf("setTimeout(f, %d); width: %dpx; rgba(%d, %d, %d, 0.%d)", r.IntN(100000), r.IntN(3000), r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(10))
	case 6:
		return fmt.Sprintf("<path d=\"M%d %dL%d %d %d %d\"/> viewBox=\"0 0 %d %d\"", r.IntN(999), r.IntN(999), r.IntN(999), r.IntN(999), r.IntN(999), r.IntN(9999), r.IntN(5000), r.IntN(5000))
	case 7:
		return fmt.Sprintf("assert_eq!(f(%d)(%d), %d.%d); // see #%d", a, b, c, r.IntN(1000), r.IntN(100000))
	case 8:
		return fmt.Sprintf("@@ -%d,%d +%d,%d @@\n-%d\n+%d", r.IntN(5000), r.IntN(99), r.IntN(5000), r.IntN(99), a, b)
	}
	return fmt.Sprintf("import x from 'y@%d.%d.%d'; git clone ssh://git@host.example.com/x.git", r.IntN(30), r.IntN(30), r.IntN(30))
}

// ordinary are makers of texts without personal data: numbers, dates, rows, dumps, logs, tables and code.
var ordinary = []maker{
	func(r *rand.Rand) string { return strconv.Itoa(integer(r)) },
	func(r *rand.Rand) string { return strconv.Itoa(-integer(r)) },
	func(r *rand.Rand) string { return strconv.FormatUint(uint64(r.Uint32()), 10) },
	func(r *rand.Rand) string {
		return []string{"2147483648", "4294967295", "9007199254740991", "18446744073709551615", "1234567890", "0123456789"}[r.IntN(6)]
	},
	func(r *rand.Rand) string { return integers(r, 2+r.IntN(6), " ", small) },
	func(r *rand.Rand) string { return integers(r, 3, " ", small) },
	func(r *rand.Rand) string { return integers(r, 2+r.IntN(6), ", ", small) },
	func(r *rand.Rand) string { return "[" + integers(r, 1+r.IntN(9), ",", small) + "]" },
	func(r *rand.Rand) string {
		return "[ " + integers(r, 1+r.IntN(9), ", ", func(r *rand.Rand) string { return strconv.Itoa(integer(r)) }) + " ]"
	},
	func(r *rand.Rand) string {
		return integers(r, 1+r.IntN(3), []string{" ", ", ", "\n"}[r.IntN(3)], func(r *rand.Rand) string {
			return spacedOut(integer(r), []string{" ", ",", ".", "'", "_", "\u00a0", "\u202f"}[r.IntN(7)])
		})
	},
	func(r *rand.Rand) string {
		return strconv.FormatFloat(r.NormFloat64()*float64(integer(r)), "feg"[r.IntN(3)], -1, 64)
	},
	func(r *rand.Rand) string { return fmt.Sprintf("%.*f", r.IntN(13), r.Float64()*float64(integer(r))) },
	func(r *rand.Rand) string { return fmt.Sprintf("%+d %+.4f", integer(r)-500, r.NormFloat64()) },
	func(r *rand.Rand) string { // text of JavaScript's String(new Date())
		return instant(r).Format("Mon Jan 02 2006 15:04:05 GMT-0700 (Central European Standard Time)")
	},
	func(r *rand.Rand) string {
		layouts := []string{
			time.RFC3339, time.RFC3339Nano, time.RFC1123Z, time.RFC1123, time.RFC850, time.ANSIC, time.UnixDate, time.RubyDate, time.RFC822Z, time.Stamp, time.StampMicro,
			"2006-01-02", "02.01.2006", "2.1.2006 15:04", "01/02/2006", "1/2/06", "20060102", "20060102150405", "2006-01-02T15:04:05.000Z", "2006/01/02 15:04:05", "15:04:05.000",
			"02-01-2006 15-04-05", "2006 01 02", "02 01 2006 15 04", "Jan 2, 2006 3:04:05 PM", "2006年01月02日 15:04", "2006.01.02-15.04.05", "02/01/06 15:04:05,000", "06-01-02 15:04",
			"D:20060102150405-07'00'", "200601021504", "2006-002", "15h04", "02 Jan 2006 15:04:05 -0700", "20060102T150405Z",
		}
		return instant(r).Format(layouts[r.IntN(len(layouts))])
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("%d %d.%06d %d", instant(r).Unix(), instant(r).Unix(), r.IntN(1e6), instant(r).UnixMilli())
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("%d x %d, %dx%d, %d*%d", r.IntN(10000), r.IntN(10000), r.IntN(8000), r.IntN(8000), r.IntN(999), r.IntN(9999))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("%d bytes (%.1f MiB), %d KB, %d%%, $%d.%02d, %d €", r.IntN(1<<40), r.Float64()*999, integer(r), r.IntN(101), integer(r), r.IntN(100), integer(r))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("-rw-r--r-- 1 root root %8d %s file-%d.txt", r.IntN(1<<30), instant(r).Format("Jan _2 15:04"), r.IntN(1000))
	},
	func(r *rand.Rand) string {
		return []string{"## [%d.%d.%d.%d]", "foo==%d.%d.%d.%d", "v%d.%d.%d.%d", "version %d.%d.%d.%d", "foo-%d.%d.%d.%d.tar.gz", "Chrome/%d.%d.%d.%d", "foo>=%d.%d.%d.%d", "\"foo\": \"^%d.%d.%d\"%.0d"}[r.IntN(8)]
	},
	func(r *rand.Rand) string { return fmt.Sprintf("%d-%d", r.IntN(3000), r.IntN(3000)) },
	func(r *rand.Rand) string {
		return fmt.Sprintf("%s %05d-%04d", []string{"Springfield, IL", "Austin TX", "", "New York, NY", "ZIP"}[r.IntN(5)], r.IntN(1e5), r.IntN(1e4))
	},
	func(r *rand.Rand) string { return uuid(r) },
	func(r *rand.Rand) string { return pick(r, lowerHex, []int{7, 12, 32, 40, 64}[r.IntN(5)]) },
	func(r *rand.Rand) string { return "sha512-" + pick(r, alnums+"+/", 86) + "==" },
	func(r *rand.Rand) string {
		return fmt.Sprintf("%.*f, %.*f", 4+r.IntN(4), r.Float64()*180-90, 4+r.IntN(4), r.Float64()*360-180)
	},
	func(r *rand.Rand) string { return fmt.Sprintf("POINT(%f %f)", r.Float64()*180, r.Float64()*90) },
	func(r *rand.Rand) string { // Invitations to call someone, with numbers that are not telephone numbers.
		return fmt.Sprintf([]string{
			"call me at %[1]s", "text 2000 rows to %[2]d", "reach %[2]d users on Monday", "call us on %[3]s at noon", "ping them at %[3]s", "my number is %[4]d",
			"the order number is %[2]d", "contact support on ticket %[2]d", "reach out at row %[2]d", "he called at %[2]d ms", "the number is %[2]d", "message size is %[2]d",
		}[r.IntN(12)], instant(r).Format("15:04"), 1e6+r.IntN(1e8), instant(r).Format([]string{"20060102", "02012006", "2006-01-02", "02.01.2006"}[r.IntN(4)]), r.IntN(1e6))
	},
	matrix, dump, table, logLine, code,
	func(r *rand.Rand) string { return lines(r, 5, logLine) },
	func(r *rand.Rand) string { return lines(r, 5, code) },
}

// ordinaryText makes a text with a random element of ordinary, and returns the index of the element. It fills in versions.
func ordinaryText(r *rand.Rand) (int, string) {
	kind := r.IntN(len(ordinary))
	text := ordinary[kind](r)
	if strings.Contains(text, "%d.%d.%d") {
		text = fmt.Sprintf(text, r.IntN(40), r.IntN(200), r.IntN(200), r.IntN(100))
	}
	return kind, text
}

// TestOrdinaryTextsStay checks that values are found in fewer than one in ten thousand texts without personal data.
func TestOrdinaryTextsStay(t *testing.T) {
	t.Parallel()
	n := 10_000
	if long() {
		n = 100_000
	}
	d := std(t)
	for _, seed := range []uint64{1, 2} {
		r := rand.New(rand.NewPCG(seed, 27))
		found := 0
		for range n {
			kind, text := ordinaryText(r)
			if got, values := marked(d, text); len(values) > 0 {
				if found++; found <= 40 {
					t.Logf("kind %d: %q %v", kind, got, values)
				}
			}
		}
		if found*10_000 >= n && found > 1 { // One number of a short series may be a card number by chance.
			t.Errorf("seed %d: %d of %d texts have values", seed, found, n)
		}
	}
}
