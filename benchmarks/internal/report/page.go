// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// remarks is the part of the page that people write: what bounds a figure, what was tried.
//
//go:embed remarks.md
var remarks string

// Page is everything that the report on a series says.
type Page struct {
	// Results are shown in this order.
	Results []*series.Result
	// Contenders are explained; those that no result has are left out.
	Contenders []subject.Contender
	// Machine is where the series ran, When is when it ended, Took how long it took.
	Machine Machine
	When    time.Time
	Took    time.Duration
	// Quick marks the figures as those of a quick series.
	Quick bool
}

// CheckPath returns an error if Write could not write to path: better said before a series
// than after it.
func CheckPath(path string) error {
	if chartPath(path) == path {
		return fmt.Errorf("report %q: a Markdown file is wanted, the chart goes beside it as .svg", path)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("report %q: %w", path, err)
	}
	if !folder.IsDir() {
		return fmt.Errorf("report %q: %q is not a folder", path, filepath.Dir(path))
	}
	return nil
}

func chartPath(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".svg" }

// Write writes the page to a Markdown file and its chart to an SVG file beside it, of the
// same name with the ending ".svg". The path is one that [CheckPath] has nothing against.
func (p Page) Write(path string) error {
	chartPath := chartPath(path)
	var page, chart strings.Builder
	if err := p.Markdown(&page, filepath.Base(chartPath)); err != nil {
		return err
	}
	if err := p.Chart(&chart); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(chartPath, []byte(chart.String()), 0o644)
}

// Markdown writes the page; chart is the address of the chart, relative to the page.
func (p Page) Markdown(w io.Writer, chart string) error {
	out := &writer{to: w}
	out.printf("# Performance\n\n")
	out.printf("Written by `make bench` (`cd benchmarks && go run . -report ../docs/PERFORMANCE.md`); do not edit by hand.\n\n")
	if p.Quick {
		out.printf("**A quick series: a tenth of the rows and of the time. These figures are for a first look only.**\n\n")
	}
	out.printf("%s. %s, in %s.\n\n", p.Machine, p.When.UTC().Format("2 January 2006, 15:04 UTC"), p.Took.Round(time.Second))
	out.printf("![Statekeel beside statedb/reconciler](%s)\n\n", chart)
	p.goals(out)
	p.method(out)
	out.printf("## Figures\n\n")
	for _, r := range p.Results {
		table(out, r)
	}
	if text := strings.TrimSpace(remarks); text != "" {
		out.printf("## Remarks\n\n%s\n", text)
	}
	return out.err
}

func (p Page) goals(out *writer) {
	var rows []string
	for _, g := range goals() {
		for _, r := range p.Results {
			if r.Workload.Name != g.workload {
				continue
			}
			if a, ok := g.answer(r); ok {
				verdict := "met"
				if !a.met {
					verdict = "**" + a.shortfall + "**"
				}
				rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", g.workload, g.metric, a.wanted, a.measured, verdict))
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	out.printf("## Goals\n\nWhat Statekeel set out to reach, and what the medians below say. ")
	out.printf("Where the peer runs in two variants, the better one counts, unless default options are what is compared.\n\n")
	out.printf("| workload | metric | wanted | measured | |\n|---|---|---|---|---|\n%s\n", strings.Join(rows, ""))
}

func (p Page) method(out *writer) {
	out.printf("## How it was measured\n\n")
	for _, c := range p.Contenders {
		if slices.ContainsFunc(p.Results, func(r *series.Result) bool { return r.Has(c.Name) }) {
			out.printf("- **%s**: %s.\n", c.Name, c.About)
		}
	}
	out.printf(`
Every run is a process of its own, one at a time; the contenders take turns (A B C A B C). Figures are the
median of the runs, with the smallest and the largest in brackets; ratios are taken pair by pair within the
same turn, and are again given as a median and a range. "≥" marks a wait that was given up: a lower bound.

A row is a 64-bit number and a status, behind a pointer, with one unique index, where no adapter needs more;
the target only counts calls, where a workload does not say that it takes its time. All contenders but those of
Kubernetes run in a full hive (health, statedb, jobs), and all with their default metrics, where their description
has no others. CPU is that of the whole process (getrusage), so it includes the writer
and the garbage collector; heap is what is live after two
collections, less what was live before the rows. Every run ends with a check of the number of rows, of their
statuses and of the calls that the target saw, and a run that does not add up ends the series.

`)
}

// table writes one workload's section.
func table(out *writer, r *series.Result) {
	first := r.Contenders[0]
	rivals := rivals(r)
	out.printf("### %s\n\n%s\n\n", r.Workload.Name, r.Workload.About)
	out.printf("Runs of each: %d.\n\n", r.Figure(first, r.Metrics[0].Name).Runs)

	out.printf("| metric | unit |")
	for _, name := range r.Contenders {
		out.printf(" %s |", name)
	}
	for _, rival := range rivals {
		out.printf(" ÷ %s |", rival)
	}
	out.printf("\n|---|---|%s\n", strings.Repeat("---|", len(r.Contenders)+len(rivals)))
	for _, m := range r.Metrics {
		out.printf("| %s | %s |", m.Name, m.Unit)
		for _, name := range r.Contenders {
			s := r.Figure(name, m.Name)
			out.printf(" %s |", joined(figureText(s), spread(s)))
		}
		for _, rival := range rivals {
			out.printf(" %s |", joined(ratioText(r, first, rival, m.Name), spread(r.Ratio(first, rival, m.Name))))
		}
		out.printf("\n")
	}
	out.printf("\n")
}

// rivals are the contenders that the first one is divided by in a table: of the peer's
// variants the one that does better in the headline, Statekeel with its defaults, with
// nothing that shows what it does and on the rows of an adapter, controller-runtime,
// crossplane-runtime, and the floor.
func rivals(r *series.Result) []string {
	headline, known := r.Metric(r.Workload.Headline)
	if !known {
		headline = r.Metrics[0]
	}
	var names []string
	for _, name := range []string{
		r.Best(headline, r.Workload.AgainstPeers()...),
		r.Best(headline, subject.Statekeel),
		r.Best(headline, subject.StatekeelBare),
		r.Best(headline, subject.StatekeelResources),
		r.Best(headline, subject.ControllerRuntime, subject.ControllerRuntime8),
		r.Best(headline, subject.Crossplane, subject.Crossplane8),
		r.Best(headline, subject.Floor),
	} {
		if name != "" && name != r.Contenders[0] {
			names = append(names, name)
		}
	}
	return names
}

func joined(median, spread string) string {
	return strings.TrimSpace(median + " " + spread)
}
