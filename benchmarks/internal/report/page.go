// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// Page is the report on one series: a Markdown page, its chart, and the data behind both.
type Page struct {
	// Results are shown in this order.
	Results []*series.Result
	// Contenders are described; those without a result are left out.
	Contenders []subject.Contender
	// Machine is where the series ran, When the time of its end, and Took its duration.
	Machine Machine
	When    time.Time
	Took    time.Duration
	// Quick marks the figures as those of a quick series.
	Quick bool
}

// CheckPath returns an error if [Page.Write] could not write to path. Call it before the series,
// so that a wrong path does not cost the series.
func CheckPath(path string) error {
	if ext := filepath.Ext(path); ext == "" || ext == ".svg" {
		return fmt.Errorf("report %q: want a Markdown file (.md); the chart and the data are written beside it", path)
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

// chartPath returns the path of the chart: that of the page, with the ending ".svg".
func chartPath(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".svg" }

// dataPath returns the path of the data folder: that of the page in lower case, without ending.
func dataPath(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return filepath.Join(filepath.Dir(path), strings.ToLower(name))
}

// Write writes the page to path, the chart to an SVG file of the same name beside it, and the
// data to a folder of the same name in lower case. Files of workloads that are not in the series
// stay as they are. [CheckPath] must have accepted the path.
func (p Page) Write(path string) error {
	chart, data := chartPath(path), dataPath(path)
	var text, picture strings.Builder
	if err := p.Markdown(&text, filepath.Base(chart), filepath.Base(data)); err != nil {
		return err
	}
	if err := p.Chart(&picture); err != nil {
		return err
	}
	if err := p.writeData(data); err != nil {
		return err
	}
	if err := os.WriteFile(chart, []byte(picture.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// Markdown writes the page. The chart and the folder of the data are relative to the page.
func (p Page) Markdown(w io.Writer, chart, data string) error {
	out := &writer{to: w}
	out.printf("# Performance\n\n")
	out.printf("Written by `make bench`; do not edit by hand.\n%s\n\n", p.origin())
	if p.Quick {
		out.printf("**%s**\n\n", quickWarning)
	}
	out.printf("![Statekeel compared with statedb/reconciler](%s)\n\n", chart)
	out.printf(method, data, data)
	out.printf("## Results and goals\n\n%s\n", resultsIntro)
	out.printf("| workload | figure | Statekeel | compared with | ratio | goal | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range p.Results {
		for _, c := range comparisons(r) {
			out.printf("%s\n", c.row(r, data))
		}
	}
	return out.err
}

// origin says where and when the series ran.
func (p Page) origin() string {
	return fmt.Sprintf("%s. %s, in %s.", p.Machine, p.When.UTC().Format("2 January 2006, 15:04 UTC"), p.Took.Round(time.Second))
}

const quickWarning = "A quick series: a tenth of the rows and of the time. Do not quote these figures."

// method takes the folder of the data, twice.
const method = `## Method

- Every run is a process of its own, one at a time. The contenders take turns (A B C, A B C).
- Figures are medians of the runs. A ratio is taken between the runs of the same turn, then the median.
- "≥" marks a lower bound: the run stopped waiting there.
- A row is a 64-bit number and a status behind a pointer, with one unique index; adapters add what they need,
  and rows whose outcomes are beside the table have no status. The operations do nothing but count, unless the workload says otherwise.
- All contenders run in a full hive with their default metrics, unless their description says otherwise.
  The controllers of Kubernetes run without a hive.
- CPU is the time of the whole process (getrusage): it includes the writer and the garbage collector.
  Heap is the live memory after two collections, less the live memory before the rows were inserted.
- Every run ends with a check of the rows, their statuses and the calls of the target. If a check
  fails, the series ends with an error.
- [%s/](%s) holds a data file for each workload: its description, what limits its figures,
  the contenders, and all figures.

`

const resultsIntro = `Each row compares one figure of Statekeel with one contender: the one that the goal names, else the best
peer. Of two variants of a peer the better one counts, except where the workload compares default options.
The ratio is Statekeel's figure divided by the other. A goal "beyond" a contender is about the difference of
the two figures, in brackets. Rows without a goal are for information.
`
