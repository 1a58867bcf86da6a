package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

// String writes a size in the largest unit that divides it: 100MiB.
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

// ParseSize reads a size: a number of bytes, or a number with a unit B, KB, KiB, MB, MiB, GB or GiB in any case.
func ParseSize(text string) (Size, error) {
	number := strings.TrimRight(strings.TrimSpace(text), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := strings.TrimSpace(text)[len(number):]
	factor := 1.0
	switch strings.ToLower(unit) {
	case "", "b":
	case "kb":
		factor = 1e3
	case "kib":
		factor = 1 << 10
	case "mb":
		factor = 1e6
	case "mib":
		factor = 1 << 20
	case "gb":
		factor = 1e9
	case "gib":
		factor = 1 << 30
	default:
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or with a unit such as 512KiB, 100MiB, 2GiB", text)
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(f) || f < 0 || strings.ContainsAny(number, "xXpP_") {
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or with a unit such as 512KiB, 100MiB, 2GiB", text)
	}
	if f *= factor; f >= 1<<62 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return Size(f), nil
}

const day = 24 * time.Hour

// ParseDuration reads a duration: numbers with units ms, s, m, h, d, as in 1m30s or 30d.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if text == "0" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit; write %ss or %[2]sms", text, text)
	}
	var days time.Duration
	rest := text
	if number, tail, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > 100*365 {
			return 0, errDuration(text)
		}
		if days, rest = time.Duration(n*float64(day)), tail; rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > math.MaxInt64-days {
		return 0, errDuration(text)
	}
	return days + d, nil
}

func errDuration(text string) error {
	return fmt.Errorf("%q is not a duration; write one such as 500ms, 30s, 5m, 2h or 30d", text)
}

// formatDuration writes a duration in the form that ParseDuration reads: 1m30s, 30d.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := ""
	if days := d / day; days > 0 {
		text, d = strconv.FormatInt(int64(days), 10)+"d", d%day
	}
	if d > 0 {
		s := d.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		text += s
	}
	return text
}
