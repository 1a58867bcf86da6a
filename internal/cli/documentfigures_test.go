package cli_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// figures returns the rows of numbers in the tables of docs/PHILOSOPHY.md, by their first cells.
func figures(t *testing.T) map[string][2]float64 {
	t.Helper()
	text, err := os.ReadFile("../../docs/PHILOSOPHY.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][2]float64{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \|$`).FindAllStringSubmatch(string(text), -1) {
		all[row[1]] = [2]float64{number(t, row[2]), number(t, row[3])}
	}
	if len(all) < 9 {
		t.Fatalf("only %d rows of figures", len(all))
	}
	return all
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPhilosophyFigures checks that docs/PHILOSOPHY.md has the figures of harness bench tokens. A change of a description that models read may change them.
func TestPhilosophyFigures(t *testing.T) {
	t.Parallel()
	var rows []struct{ Tools, Direct, Code int }
	setup(t).run("bench", "tokens", "--json").want(0).value(&rows)
	documented := figures(t)
	if len(rows) != 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		name := strconv.Itoa(row.Tools)
		if row.Tools >= 1000 {
			name = name[:len(name)-3] + "," + name[len(name)-3:]
		}
		if got := documented[name]; got != [2]float64{float64(row.Direct), float64(row.Code)} {
			t.Errorf("%s tools: the document has %v, the command prints %d and %d", name, got, row.Direct, row.Code)
		}
	}
}

// demoFigures compares the figures of docs/PHILOSOPHY.md, which are rounded, with what harness demo has printed.
func demoFigures(t *testing.T, printed string) {
	t.Helper()
	documented := figures(t)
	for name, label := range map[string]string{
		"results that the model reads": "results read by the model", "context in the last turn": "context in the last turn", "turns": "turns", "input over all turns": "input over all turns",
	} {
		line := regexp.MustCompile(`(?m)^\s*` + label + `\s+([\d,]+)\s+([\d,]+)$`).FindStringSubmatch(printed)
		if line == nil {
			t.Errorf("the demo prints no line %q", label)
			continue
		}
		for i, got := range documented[name] {
			if want := number(t, line[i+1]); math.Abs(got-want) > 0.02*want {
				t.Errorf("%s: the document has %g, the demo %g", name, got, want)
			}
		}
	}
	if !strings.Contains(printed, "98.9 % less") {
		t.Error("the demo does not print the share that the document has, 98.9 %")
	}
}
