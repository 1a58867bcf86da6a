package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

var example = assumptions{
	peak: 5, model: 2 * time.Second, cores: 4, full: 0.6, days: 30, trip: 500 * time.Microsecond, flush: time.Millisecond,
	dbCores: 64, dbLog: 100e6, dbDisk: 16e12,
}

// TestSimulate: the simulation agrees with values that can be computed directly. Processors are as busy as the tasks make them, and a task that never waits
// takes the time of its processors and of its commits.
func TestSimulate(t *testing.T) {
	p := plan{rate: 20, replicas: 1, shards: 1}
	got := simulate(p, measured, example, 2*time.Minute)
	if want := 20 * measured.processor.Seconds() / 4; got.busy < 0.85*want || got.busy > 1.1*want {
		t.Errorf("the processors are busy for %.3f, want about %.3f", got.busy, want)
	}
	quiet := simulate(plan{rate: 0.1, replicas: 1, shards: 1}, measured, example, 10*time.Minute)
	commit := tripsOfTransaction*example.trip + example.flush + measured.database/time.Duration(measured.commits)
	if want := measured.processor + time.Duration(measured.commits)*commit; quiet.at(0.5) < want*99/100 || quiet.at(0.5) > want*101/100 {
		t.Errorf("a task alone takes %s, want about %s", quiet.at(0.5), want)
	}
	if quiet.group > 1.01 || got.group < 1.2 {
		t.Errorf("%.2f commits share a transaction where tasks are alone, %.2f where they are not", quiet.group, got.group)
	}
}

// TestPlanned: exceeded limits divide the users between several servers, and tasks wait if there are too few replicas.
func TestPlanned(t *testing.T) {
	small, large := planned(1e6, measured, example), planned(100e6, measured, example)
	if small.shards != 1 || large.shards < 2 {
		t.Errorf("%d and %d servers", small.shards, large.shards)
	}
	several := planned(20e6, measured, example)
	enough := simulate(several, measured, example, time.Minute)
	several.replicas /= 2
	few := simulate(several, measured, example, time.Minute)
	if few.at(0.99) < 5*enough.at(0.99) {
		t.Errorf("p99 is %s with enough replicas, and %s with half of them, which are too few", enough.at(0.99), few.at(0.99))
	}
}

// TestDocument: docs/SCALE.md contains the output of the command.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/SCALE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, runs := range []float64{1e6, 100e6} {
		a := example
		a.priceCPU, a.priceGB = 25, 0.1
		var out strings.Builder
		describe(&out, runs, measured, a)
		if !strings.Contains(string(text), out.String()) {
			t.Errorf("docs/SCALE.md does not have\n%s", &out)
		}
	}
}
