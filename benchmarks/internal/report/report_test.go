// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// results returns the result of a workload that returns the given figures: for each contender
// the figures of its runs. Contenders without figures do not take part.
func results(t *testing.T, w workload.Workload, runs map[string][]workload.Figures) *series.Result {
	n := 0
	for _, figures := range runs {
		n = max(n, len(figures))
	}
	turn := map[string]int{}
	plan := series.Plan{
		Workloads:  []workload.Workload{w},
		Contenders: slices.Collect(maps.Keys(runs)),
		Runs:       n,
		Execute: func(_ context.Context, run series.Run) (workload.Figures, error) {
			turn[run.Contender]++
			return runs[run.Contender][turn[run.Contender]-1], nil
		},
	}
	var result *series.Result
	require.NoError(t, plan.Run(t.Context(), func(r *series.Result) error {
		result = r
		return nil
	}))
	return result
}

func throughput(v float64) workload.Figures {
	return workload.Figures{{Metric: "throughput", Unit: "objects/s", Better: workload.More, Value: v}}
}

func noopResult(t *testing.T) *series.Result {
	return results(t, workload.Workload{
		Name: "noop-single", About: "Rows & <rows>.", Headline: "throughput",
		Contenders: []string{subject.Statekeel, subject.Peer, subject.Floor},
	}, map[string][]workload.Figures{
		subject.Statekeel: {throughput(700_000), throughput(720_000), throughput(740_000)},
		subject.Peer:      {throughput(560_000), throughput(600_000), throughput(600_000)},
		subject.Floor:     {throughput(800_000), throughput(800_000), throughput(800_000)},
	})
}

func starvationResult(t *testing.T) *series.Result {
	wait := func(v float64, bound bool) workload.Figures {
		return workload.Figures{
			{Metric: "retry_wait", Unit: "ms", Better: workload.Less, Value: v + 50, AtLeast: bound},
			{Metric: "late", Unit: "ms", Better: workload.Less, Value: v, AtLeast: bound},
		}
	}
	return results(t, workload.Workload{
		Name: "starvation", About: "A retry.", Headline: "retry_wait",
		Contenders: []string{subject.Statekeel, subject.Peer},
	}, map[string][]workload.Figures{
		subject.Statekeel: {wait(2, false)},
		subject.Peer:      {wait(10_000, true)},
	})
}

func page(t *testing.T) Page {
	return Page{
		Results:    []*series.Result{noopResult(t), starvationResult(t)},
		Contenders: subject.Contenders(),
		Machine:    Machine{CPU: "Abacus & Sons", Cores: 2, MemoryGiB: 23.4, Go: "go1.26.8 linux/amd64"},
		When:       time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC),
		Took:       1234567 * time.Millisecond,
	}
}

func TestTextShowsFiguresAndRatios(t *testing.T) {
	var out strings.Builder
	require.NoError(t, Text(&out, noopResult(t)))
	require.NoError(t, Text(&out, starvationResult(t)))
	assert.Equal(t, `noop-single
  Rows & <rows>.
  median (min … max); ratio: statekeel divided by the other, run by run

  throughput, objects/s (more is better)
    statekeel                    720,000  (700,000 … 740,000)
    statedb/reconciler           600,000  (560,000 … 600,000)       ratio 1.23 (1.20 … 1.25)
    floor                        800,000                            ratio 0.9 (0.875 … 0.925)

starvation
  A retry.
  median (min … max); ratio: statekeel divided by the other, run by run

  retry_wait, ms (less is better)
    statekeel                       52.0
    statedb/reconciler          ≥ 10,050                            ratio ≤ 0.00517

  late, ms (less is better)
    statekeel                       2.00
    statedb/reconciler          ≥ 10,000                            ratio ≤ 0.0002

`, out.String())
}

func TestJSONShapes(t *testing.T) {
	var out strings.Builder
	require.NoError(t, JSON(&out, noopResult(t)))
	assert.Equal(t, `{"workload":"noop-single","contender":"statekeel","metric":"throughput","unit":"objects/s","better":"more","runs":3,"min":700000,"median":720000,"max":740000,"values":[700000,720000,740000]}
{"workload":"noop-single","contender":"statedb/reconciler","metric":"throughput","unit":"objects/s","better":"more","runs":3,"min":560000,"median":600000,"max":600000,"values":[560000,600000,600000]}
{"workload":"noop-single","contender":"floor","metric":"throughput","unit":"objects/s","better":"more","runs":3,"min":800000,"median":800000,"max":800000,"values":[800000,800000,800000]}
{"workload":"noop-single","ratio_of":"statekeel","ratio_to":"statedb/reconciler","metric":"throughput","min":1.2,"median":1.2333333333333334,"max":1.25}
{"workload":"noop-single","ratio_of":"statekeel","ratio_to":"floor","metric":"throughput","min":0.875,"median":0.9,"max":0.925}
{"workload":"noop-single","ratio_of":"statedb/reconciler","ratio_to":"floor","metric":"throughput","min":0.7,"median":0.75,"max":0.75}
`, out.String())
}

func TestJSONOmitsRatiosWithDivisorZero(t *testing.T) {
	var out strings.Builder
	require.NoError(t, JSON(&out, results(t, workload.Workload{
		Name: "idle", Contenders: []string{subject.Statekeel, subject.Peer},
	}, map[string][]workload.Figures{
		subject.Statekeel: {throughput(0), throughput(1)},
		subject.Peer:      {throughput(1), throughput(0)},
	})))
	assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	assert.NotContains(t, out.String(), "ratio_of")
}

// wellFormed parses an SVG and counts its elements by name.
func wellFormed(t *testing.T, svg string) map[string]int {
	elements := map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
}

func TestChartIsWellFormedAndHasNoScript(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, page(t).Chart(&out))
	svg := out.String()
	elements := wellFormed(t, svg)
	assert.Equal(t, 1, elements["svg"])
	assert.Equal(t, 3, elements["rect"], "the background and a bar for each workload")
	assert.Zero(t, elements["script"])
	assert.Contains(t, svg, "prefers-color-scheme: dark")
	assert.Contains(t, svg, ">1.23×<")
	assert.Contains(t, svg, ">100×<")
	assert.Contains(t, svg, ">≥ 193×<", "a lower bound of the wait is a lower bound of the factor")
	assert.Contains(t, svg, "noop-single: 1.23× (720,000 vs 600,000 objects/s)")
}

func TestQuickSeriesWithoutStatekeelWarnsAndHasAnEmptyChart(t *testing.T) {
	var out bytes.Buffer
	p := Page{Results: []*series.Result{results(t, workload.Workload{
		Name: "noop-single", Headline: "throughput", Contenders: []string{subject.Statekeel, subject.Peer},
	}, map[string][]workload.Figures{subject.Peer: {throughput(1)}})}, Quick: true}
	require.NoError(t, p.Chart(&out))
	assert.Equal(t, 1, wellFormed(t, out.String())["rect"])
	assert.Contains(t, out.String(), "A QUICK SERIES")
	out.Reset()
	require.NoError(t, p.Markdown(&out, "chart.svg", "data"))
	assert.Contains(t, out.String(), "**A quick series: a tenth")
}

func TestBarShowsTheVariantOfTheWorkload(t *testing.T) {
	w := workload.Workload{
		Name: "workers-2", Headline: "throughput",
		Contenders: []string{subject.Statekeel2, subject.Statekeel, subject.Peer, subject.Floor},
	}
	r := results(t, w, map[string][]workload.Figures{
		subject.Statekeel2: {throughput(80)},
		subject.Statekeel:  {throughput(40)},
		subject.Peer:       {throughput(20)},
		subject.Floor:      {throughput(60)},
	})
	b, ok := barOf(r)
	require.True(t, ok)
	assert.Equal(t, 4.0, b.mid, "the variant compared with the peer")
	assert.Equal(t, subject.Peer, bestPeer(r))

	_, ok = barOf(results(t, w, map[string][]workload.Figures{
		subject.Statekeel: {throughput(40)},
		subject.Peer:      {throughput(20)},
	}))
	assert.False(t, ok, "another variant does not replace it")
}

func TestWorkloadWithoutPeerHasNoBar(t *testing.T) {
	r := results(t, workload.Workload{
		Name: "blocked-one", Headline: "throughput", Contenders: []string{subject.Statekeel},
	}, map[string][]workload.Figures{subject.Statekeel: {throughput(1)}})
	_, ok := barOf(r)
	assert.False(t, ok)
	assert.Empty(t, bestPeer(r))
	rows := comparisons(r)
	require.Len(t, rows, 1)
	assert.Equal(t, "| [blocked-one](data/blocked-one.json) | throughput, objects/s | 1.00 | – | – |  |  |", rows[0].row(r, "data"))
}

func TestGoalBeyondAContenderShowsTheDifference(t *testing.T) {
	r := results(t, workload.Workload{
		Name: "idle", Headline: "cpu", Contenders: []string{subject.Statekeel, subject.Peer},
	}, map[string][]workload.Figures{
		subject.Statekeel: {figure("cpu", workload.Less, 3)},
		subject.Peer:      {figure("cpu", workload.Less, 2)},
	})
	rows := comparisons(r)
	require.Len(t, rows, 1)
	assert.Equal(t, "| [idle](data/idle.json) | cpu, us | 3.00 | 2.00 by statedb/reconciler | 1.50 | "+
		"at most 1.00 us beyond statedb/reconciler | met (1.00 us) |", rows[0].row(r, "data"))
}

func TestChartDrawsWorseToTheLeft(t *testing.T) {
	scale := newLogScale([]bar{{least: 0.2, mid: 0.25, top: 0.3}, {least: 50, mid: 60, top: 100}})
	assert.Less(t, scale.at(0.25), scale.at(1))
	assert.Less(t, scale.at(1), scale.at(60))
	assert.GreaterOrEqual(t, scale.at(0.2), float64(plotLeft))
	assert.LessOrEqual(t, scale.at(100), float64(plotRight))
}

func TestPageChartAndDataAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "PERFORMANCE.md")
	require.NoError(t, page(t).Write(path))
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		require.NoError(t, err)
		return string(content)
	}

	text := read("PERFORMANCE.md")
	for _, want := range []string{
		"do not edit by hand",
		"Abacus & Sons, 2 cores, 23 GiB, go1.26.8 linux/amd64. 21 November 2026, 05:00 UTC, in 20m35s.",
		"](PERFORMANCE.svg)",
		"[performance/](performance)",
		"\n| [noop-single](performance/noop-single.json) | throughput, objects/s | 720,000 | 600,000 by statedb/reconciler | 1.23 | " +
			"at least 1.20 x statedb/reconciler | met |\n" +
			"| [noop-single](performance/noop-single.json) | throughput, objects/s | 720,000 | 800,000 by floor | 0.9 | " +
			"at least 0.92 x floor | **short by 2.17 %** |\n" +
			"| [starvation](performance/starvation.json) | retry_wait, ms | 52.0 | ≥ 10,050 by statedb/reconciler | ≤ 0.00517 |  |  |\n" +
			"| [starvation](performance/starvation.json) | late, ms | 2.00 | ≥ 10,000 by statedb/reconciler | ≤ 0.0002 | at most 100 ms | met |\n",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "quick series")

	assert.Contains(t, read("performance/README.md"), "| contenders | ")
	wellFormed(t, read("PERFORMANCE.svg"))

	var data struct {
		dataHeader
		Figures []jsonFigure `json:"figures"`
		Ratios  []jsonRatio  `json:"ratios"`
	}
	require.NoError(t, json.Unmarshal([]byte(read("performance/noop-single.json")), &data))
	var contenders []string
	for _, c := range data.Contenders {
		assert.NotEmpty(t, c.About, c.Name)
		contenders = append(contenders, c.Name)
	}
	assert.Equal(t, []string{subject.Statekeel, subject.Peer, subject.Floor}, contenders, "those that took part")
	data.Contenders = nil
	assert.Equal(t, dataHeader{
		Workload: "noop-single", About: "Rows & <rows>.", Remark: remarkOn("noop-single"),
		Machine: "Abacus & Sons, 2 cores, 23 GiB, go1.26.8 linux/amd64", Ended: page(t).When,
	}, data.dataHeader)
	assert.Equal(t, figuresOf(noopResult(t)), data.Figures)
	assert.Equal(t, []float64{560_000, 600_000, 600_000}, data.Figures[1].Values, "every run")
	assert.Equal(t, ratiosOf(noopResult(t)), data.Ratios)
}

func TestCheckPathRejectsUnwritablePaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.NoError(t, CheckPath(filepath.Join(dir, "page.md")))
	assert.ErrorContains(t, CheckPath(filepath.Join(dir, "page.svg")), "want a Markdown file")
	assert.ErrorContains(t, CheckPath(filepath.Join(dir, "page")), "want a Markdown file")
	assert.ErrorIs(t, CheckPath(filepath.Join(dir, "none", "page.md")), os.ErrNotExist)
	assert.ErrorContains(t, CheckPath(filepath.Join(file, "page.md")), "is not a folder")
}

func TestRenderersReportAWriteError(t *testing.T) {
	for name, render := range map[string]func(io.Writer) error{
		"text":     func(w io.Writer) error { return Text(w, noopResult(t)) },
		"json":     func(w io.Writer) error { return JSON(w, noopResult(t)) },
		"chart":    func(w io.Writer) error { return page(t).Chart(w) },
		"data":     func(w io.Writer) error { return page(t).data(w, noopResult(t)) },
		"readme":   func(w io.Writer) error { return page(t).readme(w) },
		"markdown": func(w io.Writer) error { return page(t).Markdown(w, "chart.svg", "data") },
	} {
		assert.ErrorIs(t, render(brokenPipe{}), io.ErrClosedPipe, name)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestThisMachineIsDescribed(t *testing.T) {
	m := ThisMachine()
	assert.Positive(t, m.Cores)
	assert.Contains(t, m.Go, "go1.")
	assert.Equal(t, "unknown CPU, 2 cores, go1", Machine{Cores: 2, Go: "go1"}.String())
	assert.Equal(t, "unknown CPU, 2 cores, go1, statedb v1.2.3", Machine{Cores: 2, Go: "go1", Store: "statedb v1.2.3"}.String())
	info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "a/other", Version: "v2.0.0"}, {Path: "a/store", Version: "v1.2.3"}}}
	assert.Equal(t, "store v1.2.3", linked(info, "a/store"))
	assert.Empty(t, linked(info, "a/none"))
	assert.Empty(t, fieldOf(filepath.Join(t.TempDir(), "none"), "x"))
}
