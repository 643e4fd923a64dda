// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
)

// dataHeader is the part of a data file that is the same for all its figures.
type dataHeader struct {
	Workload   string          `json:"workload"`
	About      string          `json:"about"`
	Remark     string          `json:"remark,omitempty"`
	Contenders []dataContender `json:"contenders"`
	Machine    string          `json:"machine"`
	Ended      time.Time       `json:"ended"`
	Quick      bool            `json:"quick"`
}

// dataContender describes a contender in a data file.
type dataContender struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// dataFile returns the name of a workload's data file.
func dataFile(r *series.Result) string { return r.Workload.Name + ".json" }

// writeData writes a data file for each workload, and the README that explains them.
func (p Page) writeData(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, r := range p.Results {
		var text strings.Builder
		if err := p.data(&text, r); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, dataFile(r)), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := p.readme(&text); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "README.md"), []byte(text.String()), 0o644)
}

// data writes the data file of a workload: one JSON object, with a figure or a ratio on each line,
// so that a diff shows what changed.
func (p Page) data(w io.Writer, r *series.Result) error {
	header, err := json.MarshalIndent(dataHeader{
		Workload:   r.Workload.Name,
		About:      r.Workload.About,
		Remark:     remarkOn(r.Workload.Name),
		Contenders: p.contendersOf(r),
		Machine:    p.Machine.String(),
		Ended:      p.When.UTC(),
		Quick:      p.Quick,
	}, "", "  ")
	if err != nil {
		return err
	}
	out := &writer{to: w}
	out.printf("%s,\n", strings.TrimSuffix(string(header), "\n}"))
	out.printf("  \"figures\": %s,\n", lines(figuresOf(r)))
	out.printf("  \"ratios\": %s\n}\n", lines(ratiosOf(r)))
	return out.err
}

// contendersOf describes the contenders of a workload, in the order of the page.
func (p Page) contendersOf(r *series.Result) []dataContender {
	contenders := []dataContender{}
	for _, c := range p.Contenders {
		if r.Has(c.Name) {
			contenders = append(contenders, dataContender{c.Name, c.About})
		}
	}
	return contenders
}

// lines renders a JSON array with an element on each line.
func lines[T any](elements []T) string {
	if len(elements) == 0 {
		return "[]"
	}
	rendered := make([]string, len(elements))
	for i, e := range elements {
		text, err := json.Marshal(e)
		if err != nil {
			panic(err) // figures are plain, finite numbers
		}
		rendered[i] = "    " + string(text)
	}
	return "[\n" + strings.Join(rendered, ",\n") + "\n  ]"
}

// readme writes the README of the data folder.
func (p Page) readme(w io.Writer) error {
	out := &writer{to: w}
	out.printf("# Data of the benchmarks\n\nWritten by `make bench`; do not edit by hand.\n%s\n\n", p.origin())
	out.printf("%s", readmeIntro)
	return out.err
}

const readmeIntro = `One JSON file for each workload. The first contender of a file is the Statekeel that the page is about.

| field | meaning |
|---|---|
| about | what the workload does, and which part of that is measured |
| remark | what limits the figures, if that is known |
| contenders | the programs that were compared, with their configuration |
| ended | the time at which the series ended |
| quick | true: a quick series, a tenth of the rows and of the time |
| figures | a metric of a contender: min, median and max of its runs |
| values | every run of a figure, in the order of the turns |
| better | whether the metric improves when it is "less" or "more"; empty if it only describes the run |
| at_least | true: a run stopped waiting, and the figure is a lower bound |
| ratios | a metric of one contender divided by that of another, run by run: min, median and max |
`
