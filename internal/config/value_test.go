package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"mcp-code-exec-harness/internal/catalog/ident"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "17": 17, "17B": 17, "1kb": 1000, "1KiB": 1024, "1.5MiB": 3 << 19, " 100 MB ": 100e6, "2GiB": 2 << 30, "2gb": 2e9,
	} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1TB", "MiB", "1 2", "0x10", "1e3000", "NaN", "Inf", "5000000000GiB", "1_000", "1MiB!"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1500ms": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour,
		"0.5d": 12 * time.Hour, " 5s ": 5 * time.Second,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "-5s", "d", "1dx", "1d-1h", "1d1d", "99999999d", "NaNd", "1y", "s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v", text, got)
		}
	}
}

// TestValuesRoundTrip checks that formatted durations and sizes are parsed as the same values.
func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(10_000*day)).Draw(t, "d"))
		d = d.Truncate(rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour, day}).Draw(t, "unit"))
		if got, err := ParseDuration(formatDuration(d)); got != d || err != nil {
			t.Fatalf("%v is shown as %q, read as %v, %v", d, formatDuration(d), got, err)
		}
		s := Size(rapid.Int64Range(0, 1<<50).Draw(t, "s")) >> rapid.IntRange(0, 3).Draw(t, "shift") << 10
		if s < 1<<40 { // the largest unit that parseSize accepts is GiB
			if got, err := parseSize(s.String()); got != s || err != nil {
				t.Fatalf("%d is shown as %q, read as %d, %v", s, s, got, err)
			}
		}
	})
}

func TestClosest(t *testing.T) {
	t.Parallel()
	names := []string{"timeout", "maxCalls", "maxHostCalls", "memory", "pool"}
	for name, want := range map[string]string{
		"timout": "timeout", "tiemout": "timeout", "max-calls": "maxCalls", "MAXCALLS": "maxCalls", "mem": "", "pol": "pool", "zzz": "", "": "",
	} {
		got := ""
		if list := ident.Closest(name, names); len(list) > 0 {
			got = list[0]
		}
		if got != want {
			t.Errorf("ident.Closest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"${TOKEN}": "${TOKEN}", "Bearer ${TOKEN}": "Bearer ${TOKEN}", "bearer ${env:A}${B}": "bearer ${env:A}${B}", "": "",
		"hunter2": masked, "Bearer hunter2": masked, "${TOKEN:-hunter2}": masked, "x${TOKEN}": masked,
	} {
		if got := mask(text, true); got != want {
			t.Errorf("secret %q is shown as %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"http://h/p":                         "http://h/p",
		"http://u@h/p":                       "http://u@h/p",
		"postgres://u:hunter2@h/db":          "postgres://u:********@h/db",
		"postgres://u:hun@ter2@h/db":         "postgres://u:********@h/db",
		"http://u:${P}@h":                    "http://u:${P}@h",
		"http://h/mcp?access=s3cr3t&q=1#top": "http://h/mcp?access=" + masked + "&q=1#top",
		"jdbc:postgres://u:hunter2@h/db":     "jdbc:postgres://u:" + masked + "@h/db",
		"http://h/?api_key=hunter2&q=1":      "http://h/?api_key=********&q=1",
		"http://h/?token=${T}&q=1":           "http://h/?token=${T}&q=1",
		"sqlite:/a/b.db":                     "sqlite:/a/b.db",
		"me@example.com":                     "me@example.com",
	} {
		if got := mask(text, false); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	args := []string{"run", "--api-key", "hunter2", "--token=hunter3", "--monkey=1", "--secret", "--flag", "--auth=${A}", "http://u:hunter4@h", "--pat=hunter5", "--db=postgres://u:hunter6@h/d", "--user", "ann:hunter7"}
	want := []string{
		"run", "--api-key", masked, "--token=" + masked, "--monkey=1", "--secret", "--flag", "--auth=${A}", "http://u:" + masked + "@h", "--pat=" + masked,
		"--db=postgres://u:" + masked + "@h/d", "--user", "ann:" + masked,
	}
	for i, got := range MaskArgs(args) {
		if got != want[i] {
			t.Errorf("argument %q is shown as %q, want %q", args[i], got, want[i])
		}
	}
}
