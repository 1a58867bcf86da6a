// Command evidence runs the commands that show the claims of this project, and writes what they gave: the raw figures to docs/evidence/AREA.json,
// and tables of them to documents.
//
//	go run ./internal/testing/evidence                          # make evidence: every claim, then the files and documents
//	go run ./internal/testing/evidence -only security           # make evidence ARGS="-only security": check an area or a claim, write nothing
//	go run ./internal/testing/evidence -against docs/evidence   # compare with committed figures, write nothing, end with 1 if one is worse
//	go run ./internal/testing/evidence -documents               # write the documents from the files, run nothing
//
// It runs in the root of the repository and needs bin/harness. The claims are in claims.yaml. A command runs as often as its claims say, in rounds: each
// command once, then each again. A figure is the median of its rounds, with the least and the largest as its interval.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

//go:embed claims.yaml
var claimsFile []byte

// folder is where the raw figures are, in the root of the repository.
const folder = "docs/evidence"

func main() {
	if len(os.Args) == 2 && os.Args[1] == echoCommand {
		_, _ = io.Copy(os.Stdout, os.Stdin) // the parent sees the end of the stream
		return
	}
	var o options
	flag.StringVar(&o.only, "only", "", "check only the claims of this area, or this claim, and write nothing")
	flag.StringVar(&o.against, "against", "", "compare with the figures in this folder, write nothing, and end with 1 if one is worse")
	flag.BoolVar(&o.documents, "documents", false, "write the documents from the files of figures, and run nothing")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "evidence: unknown argument %q\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	good, err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		os.Exit(1)
	}
	if !good {
		os.Exit(1)
	}
}

type options struct {
	only, against string
	documents     bool
}

// run reports whether every claim that was checked holds, and, with -against, whether no figure is worse.
func (o options) run(ctx context.Context, out io.Writer) (good bool, err error) {
	set, err := load(claimsFile)
	if err != nil {
		return false, err
	}
	before, err := readFolder(folder)
	if err != nil {
		return false, err
	}
	if o.documents {
		return true, writeDocuments(".", set, before)
	}
	if o.against != "" {
		if before, err = readFolder(o.against); err != nil {
			return false, err
		}
		if len(before) == 0 {
			return false, fmt.Errorf("no figures in %s: give the folder of an earlier run of make evidence", o.against)
		}
	}
	claims := set.selected(o.only)
	if len(claims) == 0 {
		return false, fmt.Errorf("no claim and no area is named %q: the areas are %v, and docs/EVIDENCE.md has the names of claims", o.only, areas)
	}
	results, err := measureAll(ctx, claims, out)
	if err != nil {
		return false, err
	}
	good = true
	for _, area := range areas {
		r := results[area]
		if r == nil {
			continue
		}
		for i := range r.Figures {
			f := &r.Figures[i]
			f.compare(before.figure(f.ID), before.dateOf(f.ID))
			good = f.report(out) && good
			if old := before.figure(f.ID); o.against != "" && old != nil {
				if why := f.worse(*old, set.Factor); why != "" {
					good = false
					fmt.Fprintf(out, "  WORSE: %s\n", why)
				}
			}
		}
	}
	if o.only != "" || o.against != "" {
		return good, nil
	}
	if err := results.write(folder); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "wrote %s/*.json and the tables of %v\n", folder, documentNames)
	return good, writeDocuments(".", set, results)
}
