package config

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

// String formats a size in the largest unit that divides it: 100MiB.
func (s Size) String() string {
	n, unit := int64(s), "B"
	for _, next := range [...]string{"KiB", "MiB", "GiB", "TiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	if n == 0 {
		return "0"
	}
	return strconv.FormatInt(n, 10) + unit
}

var sizeForm = lazy(`^([0-9.]+) *(?:(?:([kmg])(i?))?b)?$`)

// parseSize parses a size: a number of bytes, or a number with a unit B, KB, KiB, MB, MiB, GB or GiB in any case.
func parseSize(text string) (Size, error) {
	form := sizeForm().FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if form == nil {
		form = make([]string, 4)
	}
	n, err := strconv.ParseFloat(form[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or with a unit such as 512KiB, 100MiB, 2GiB", text)
	}
	base := 1000.0
	if form[3] != "" {
		base = 1024
	}
	n *= math.Pow(base, float64(strings.Index(" kmg", form[2])))
	if n >= 1<<62 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return Size(n), nil
}

const day = 24 * time.Hour

// ParseDuration parses a duration: numbers with the units ms, s, m, h, d, as in 1m30s or 30d.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if _, err := strconv.ParseFloat(text, 64); err == nil && text != "0" {
		return 0, fmt.Errorf("%q has no unit; write %ss or %[2]sms", text, text)
	}
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		number, rest = "0", text
	} else if rest == "" {
		rest = "0"
	}
	days, failed := strconv.ParseFloat(number, 64)
	d, err := time.ParseDuration(rest)
	if err != nil || failed != nil || d < 0 || !(days >= 0 && days <= 100*365) || d > math.MaxInt64-time.Duration(days*float64(day)) {
		return 0, fmt.Errorf("%q is not a duration; write one such as 500ms, 30s, 5m, 2h or 30d", text)
	}
	return time.Duration(days*float64(day)) + d, nil
}

// formatDuration formats a duration in the form that ParseDuration reads: 1m30s, 30d.
func formatDuration(d time.Duration) string {
	text := ""
	if days := d / day; days > 0 {
		text, d = strconv.FormatInt(int64(days), 10)+"d", d%day
	}
	if d == 0 {
		return cmp.Or(text, "0")
	}
	rest := d.String()
	for _, unit := range [...]string{"m0s", "h0m"} {
		if strings.HasSuffix(rest, unit) {
			rest = rest[:len(rest)-2]
		}
	}
	return text + rest
}
