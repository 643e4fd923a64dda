// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Compare measures example/services beside kube-proxy's nftables proxier, and prints a table in Markdown. It builds both,
// and lets them take turns, never at once. It takes root, the command nft, and for all sizes half an hour.
//
//	go run ./compare                                  everything
//	go run ./compare -services 1000 -duration 10s     a look
//	go run ./compare -keep figures                    what figures has a file for is not measured again
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
)

// contender is a program with its settings.
type contender struct {
	title   string
	program string
	args    []string
	// changes says how many quiet changes are made. A program that takes seconds for a change gets fewer of them.
	changes func(services int) int
}

// contenders has the one first that the others are compared with.
var contenders = []contender{
	{"Statekeel", "services", nil, func(int) int { return 100 }},
	{"kube-proxy, 1 s", "kubeproxy", nil, fewer},
	{"kube-proxy, 10 ms", "kubeproxy", []string{"-min-sync", "10ms"}, fewer},
}

func fewer(services int) int {
	if services > 5000 {
		return 10
	}
	return 30
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sizes := flag.String("services", "1000,10000", "how many services there are, with commas")
	duration := flag.Duration("duration", time.Minute, "how long there are many changes")
	keep := flag.String("keep", "", "a `folder` for the figures; empty: they are not kept")
	flag.Parse()
	text, err := compare(ctx, *sizes, *duration, *keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

func compare(ctx context.Context, sizes string, duration time.Duration, keep string) (string, error) {
	programs, err := os.MkdirTemp("", "compare")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(programs)
	build := exec.CommandContext(ctx, "go", "build", "-o", programs, ".", "./services")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the contenders: %w", err)
	}
	var all [][]*measure.Figures
	for size := range strings.SplitSeq(sizes, ",") {
		services, err := strconv.Atoi(size)
		if err != nil {
			return "", fmt.Errorf("a number of services: %w", err)
		}
		var row []*measure.Figures
		for _, c := range contenders {
			file := ""
			if keep != "" {
				file = filepath.Join(keep, fmt.Sprintf("%s-%d.json", strings.NewReplacer(",", "", " ", "-").Replace(c.title), services))
			}
			f, err := c.figures(ctx, programs, services, duration, file)
			if err != nil {
				return "", fmt.Errorf("%s with %d services: %w", c.title, services, err)
			}
			row = append(row, f)
		}
		all = append(all, row)
	}
	return table(all), nil
}

// figures measures a contender, unless a file has its figures.
func (c contender) figures(ctx context.Context, programs string, services int, duration time.Duration, file string) (*measure.Figures, error) {
	out, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "%s %s with %d services\n", time.Now().Format(time.TimeOnly), c.title, services)
		args := append([]string{"-json", "-services", strconv.Itoa(services), "-duration", duration.String(),
			"-changes", strconv.Itoa(c.changes(services))}, c.args...)
		run := exec.CommandContext(ctx, filepath.Join(programs, c.program), args...)
		// It stops what it has started before it ends.
		run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
		var stdout bytes.Buffer
		run.Stdout, run.Stderr = &stdout, os.Stderr
		if err = run.Run(); err == nil {
			out = stdout.Bytes()
			if file != "" {
				err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, out, 0o644))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	f := &measure.Figures{}
	return f, json.Unmarshal(out, f)
}

// line is a line of the table: what is compared, and the cell of a contender.
type line struct {
	title string
	value func(*measure.Figures) float64 // for the ratio
	cell  func(*measure.Figures) string
}

var lines = []line{
	{"first sync", func(f *measure.Figures) float64 { return float64(f.First.Kernel) },
		func(f *measure.Figures) string { return fmt.Sprintf("%v (%v)", f.First.Kernel, f.First.Others) }},
	{"CPU of it", func(f *measure.Figures) float64 { return float64(f.First.CPU) },
		func(f *measure.Figures) string { return f.First.CPU.String() }},
	// The ratio is of p50: the p99 of few changes is the longest of them.
	{"a quiet change, p50 / p99 / max", func(f *measure.Figures) float64 { return float64(f.Quiet.P50) },
		func(f *measure.Figures) string { return latencies(f.Quiet) }},
	{"CPU of it", func(f *measure.Figures) float64 { return float64(f.Quiet.CPUEach) },
		func(f *measure.Figures) string { return f.Quiet.CPUEach.String() }},
	{"100 changes a second, p50 / p99 / max", func(f *measure.Figures) float64 { return float64(f.Churn.P99) },
		func(f *measure.Figures) string { return latencies(f.Churn) }},
	{"CPU of a change", func(f *measure.Figures) float64 { return float64(f.Churn.CPUEach) },
		func(f *measure.Figures) string { return f.Churn.CPUEach.String() }},
	{"RSS after the first sync", func(f *measure.Figures) float64 { return f.Memory.Loaded },
		func(f *measure.Figures) string { return mebibytes(f.Memory.Loaded) }},
	{"RSS at most, with processes that it started", func(f *measure.Figures) float64 { return most(f.Memory) },
		func(f *measure.Figures) string { return mebibytes(most(f.Memory)) }},
	{"live heap", func(f *measure.Figures) float64 { return f.Memory.Heap },
		func(f *measure.Figures) string { return mebibytes(f.Memory.Heap) }},
	{"restart on an equal kernel, until it is sure", func(f *measure.Figures) float64 { return float64(f.Restart.BelievedFromStart) },
		func(f *measure.Figures) string {
			return fmt.Sprintf("%v (%v)", f.Restart.BelievedFromStart, f.Restart.Others)
		}},
	{"CPU of it", func(f *measure.Figures) float64 { return float64(f.Restart.CPU) },
		func(f *measure.Figures) string { return f.Restart.CPU.String() }},
	{"writes of it: rules / sets / elements", nil, func(f *measure.Figures) string {
		w := f.Restart.Writes
		return fmt.Sprintf("%d / %d / %d", w.NewRules+w.DeletedRules, w.NewSets+w.DeletedSets, w.NewElements+w.DeletedElements)
	}},
}

func latencies(c *measure.Changes) string {
	return fmt.Sprintf("%v / %v / %v of %d (%v)", c.P50, c.P99, c.Max, c.Count, c.Others)
}

func most(m *measure.Memory) float64 { return max(m.Most, m.Together) }

func mebibytes(n float64) string { return fmt.Sprintf("%.0f MiB", n) }

// table renders what all contenders took for each size.
func table(all [][]*measure.Figures) string {
	var b strings.Builder
	first := all[0]
	m := first[0].Machine
	fmt.Fprintf(&b, "%s, %d cores, Linux %s, %s, %s. In brackets: how much of the machine others took meanwhile.\n\n", m.CPU,
		m.Cores, m.Kernel, m.Go, m.When)
	for i, c := range contenders {
		fmt.Fprintf(&b, "- %s: %v\n", c.title, versions(first[i]))
	}
	b.WriteString("\n| services | |")
	rule := "|---:|---|"
	for i, c := range contenders {
		fmt.Fprintf(&b, " %s |", c.title)
		rule += "---|"
		if i > 0 {
			b.WriteString(" ratio |")
			rule += "---:|"
		}
	}
	b.WriteString("\n" + rule + "\n")
	for _, row := range all {
		for _, l := range lines {
			fmt.Fprintf(&b, "| %d of %d | %s |", row[0].Services, row[0].Endpoints, l.title)
			for i, f := range row {
				fmt.Fprintf(&b, " %s |", l.cell(f))
				switch {
				case i > 0 && l.value != nil && l.value(f) != 0:
					fmt.Fprintf(&b, " %.2g x |", l.value(row[0])/l.value(f))
				case i > 0:
					b.WriteString(" |")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// versions returns the settings of a contender, and what it is made of.
func versions(f *measure.Figures) string {
	return strings.TrimPrefix(cmp.Or(measure.Pairs(f.Versions)+measure.Pairs(f.Settings), ", as it is"), ", ")
}
