// Command scale computes what a large number of tasks a day needs: machines, PostgreSQL servers, disk space and money, and which limits it exceeds. It
// simulates 20 seconds of the busiest hour, so that the times of tasks include waiting. Its constants were measured with the load test; docs/SCALE.md says
// how.
//
//	go run ./internal/testing/scale                       # 1 and 100 million runs a day
//	go run ./internal/testing/scale -runs 5e6 -cores 8 -model 4s
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// task holds the resources that one task takes: three runs with ten calls of tools in total, and four turns of a model.
type task struct {
	runs, turns int
	commits     int           // number of commits to the store, one after another
	reads       int           // number of reads from the store
	processor   time.Duration // processor time of the harness with its children
	database    time.Duration // processor time of PostgreSQL
	log         float64       // bytes of PostgreSQL's write-ahead log
	tables      float64       // bytes of tables and indexes
	deletion    time.Duration // time to delete a run with its journal at the end of its retention
}

// measured is a task of the load test: go run ./internal/testing/load -replicas 1 -only "200 tasks" bin/harness. The time of the deletion comes from
// BenchmarkPurge in internal/store/sqlstore.
var measured = task{runs: 3, turns: 4, commits: 32, reads: 16, processor: 50 * time.Millisecond, database: 13 * time.Millisecond, log: 55e3, tables: 32e3, deletion: 150 * time.Microsecond}

// assumptions are the properties of an operator's installation, and what the operator requires.
type assumptions struct {
	peak     float64       // ratio of the load in the busiest hour to the mean load
	model    time.Duration // mean time of a turn of the model
	cores    int           // processors of a replica
	full     float64       // share of the processors that may be busy in the busiest hour
	days     float64       // days for which runs are kept
	trip     time.Duration // round-trip time between harness and PostgreSQL
	flush    time.Duration // time to flush the write-ahead log to disk
	dbCores  int           // processors of the largest PostgreSQL server that is available
	dbLog    float64       // bytes per second that the write-ahead log of this server can take
	dbDisk   float64       // bytes that the disk of this server can hold
	priceCPU float64       // price of a processor per month
	priceGB  float64       // price of 10^9 bytes of disk per month
}

func main() {
	a := assumptions{dbLog: 100e6, dbDisk: 16e12}
	runs := flag.Float64("runs", 0, "runs a day; 0: 1 and 100 million")
	flag.Float64Var(&a.peak, "peak", 5, "times by which the busiest hour exceeds the mean")
	flag.DurationVar(&a.model, "model", 2*time.Second, "mean time of a turn of the model")
	flag.IntVar(&a.cores, "cores", 4, "processors of a replica")
	flag.Float64Var(&a.full, "full", 0.6, "share of processors that may be busy in the busiest hour")
	flag.Float64Var(&a.days, "days", 30, "days for which runs are kept")
	flag.DurationVar(&a.trip, "trip", 500*time.Microsecond, "time of a message to PostgreSQL and back")
	flag.DurationVar(&a.flush, "flush", time.Millisecond, "time of writing PostgreSQL's log to disk")
	flag.IntVar(&a.dbCores, "database-cores", 64, "processors of the largest PostgreSQL server that is to be had")
	flag.Float64Var(&a.priceCPU, "price-cpu", 25, "price of a processor for a month")
	flag.Float64Var(&a.priceGB, "price-gb", 0.1, "price of 10^9 bytes of disk for a month")
	flag.Parse()
	if flag.NArg() > 0 || *runs < 0 || a.cores < 1 || a.dbCores < 1 || a.full <= 0 || a.full > 1 || a.peak < 1 {
		fmt.Fprintln(os.Stderr, "usage: scale [-runs N] [-peak TIMES] [-model TIME] [-cores N] [-full SHARE] [-days N] …; see scale -help")
		os.Exit(2)
	}
	for _, n := range []float64{1e6, 100e6} {
		if *runs > 0 {
			n = *runs
		}
		describe(os.Stdout, n, measured, a)
		if *runs > 0 {
			break
		}
	}
}

// plan holds the resources for a number of runs a day.
type plan struct {
	rate     float64 // tasks per second in the busiest hour
	replicas int
	shards   int // number of PostgreSQL servers
	limits   []limit
}

// limit is a resource of one PostgreSQL server that more tasks can use up.
type limit struct {
	name       string
	used, have float64
	unit       string
	instead    string // change that helps if the limit is exceeded
}

// planned computes a plan. Replicas and servers are large enough for the share of processors that may be busy in the busiest hour.
func planned(runs float64, t task, a assumptions) plan {
	daily := runs / float64(t.runs)
	p := plan{rate: daily / 86400 * a.peak}
	p.replicas = int(math.Ceil(p.rate*t.processor.Seconds()/(a.full*float64(a.cores)))) + 1 // One replica may be unavailable.
	p.limits = []limit{
		{"disk", daily * a.days * t.tables, a.dbDisk, "bytes", "keep runs for fewer days, or move ended runs out of the database"},
		{"write-ahead log", p.rate * t.log, a.dbLog, "bytes/s", "divide the users between several servers"},
		{"deletion of ended runs", runs / 86400 * t.deletion.Seconds(), 0.1 * float64(p.replicas), "writers, a tenth of all", "more replicas"},
		{"processors", p.rate * t.database.Seconds(), a.full * float64(a.dbCores), "processors", "divide the users between several servers"},
	}
	p.shards = 1
	for _, l := range p.limits {
		p.shards = max(p.shards, int(math.Ceil(l.used/l.have)))
	}
	return p
}

// describe writes the resources for a number of runs a day.
func describe(w io.Writer, runs float64, t task, a assumptions) {
	p := planned(runs, t, a)
	daily := runs / float64(t.runs)
	fmt.Fprintf(w, "%.3g runs a day are %.3g tasks; in the busiest hour %.3g tasks a second, %.3g commits and %.3g reads of the store a second\n",
		runs, daily, p.rate, p.rate*float64(t.commits), p.rate*float64(t.reads))
	fmt.Fprintf(w, "  harness      %.3g processors busy: %d replicas of %d\n", p.rate*t.processor.Seconds(), p.replicas, a.cores)
	fmt.Fprintf(w, "  PostgreSQL   %.3g processors busy, %.3g MB/s of write-ahead log, %.3g GB of tables a day, %.3g GB in %g days\n",
		p.rate*t.database.Seconds(), p.rate*t.log/1e6, daily*t.tables/1e9, daily*t.tables*a.days/1e9, a.days)
	for _, l := range p.limits {
		if l.used > l.have {
			fmt.Fprintf(w, "  exceeded     %s: %.3g of %.3g %s; %s\n", l.name, l.used, l.have, l.unit, l.instead)
		}
	}
	databaseCores := math.Ceil(p.rate * t.database.Seconds() / a.full)
	fmt.Fprintf(w, "  servers      %d of PostgreSQL; all processors and disks together %.0f a month\n", p.shards,
		(float64(p.replicas*a.cores)+databaseCores)*a.priceCPU+daily*t.tables*a.days/1e9*a.priceGB)
	got := simulate(p, t, a, 20*time.Second)
	fmt.Fprintf(w, "  simulated    %d tasks in %s: besides the model a task takes p50 %s, p99 %s (%s of processors); %.2g commits in each of %.3g transactions a second; processors %.0f %% busy\n\n",
		got.tasks, got.length, got.at(0.5), got.at(0.99), t.processor, got.group, got.transactions, 100*got.busy)
}
