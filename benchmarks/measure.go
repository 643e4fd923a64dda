// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/report"
	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// measure runs the series, prints each result as soon as it is complete, and writes the report at the end.
// Progress goes to messages.
func (cfg config) measure(ctx context.Context, out, messages io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run it again: %w", err)
	}
	if cfg.report != "" {
		if err := report.CheckPath(cfg.report); err != nil {
			return err
		}
	}
	if cfg.profiles != "" {
		if err := os.MkdirAll(cfg.profiles, 0o755); err != nil {
			return err
		}
	}
	page := report.Page{
		Contenders: subject.Contenders(),
		Machine:    report.ThisMachine(),
		Quick:      cfg.quick,
	}
	if !cfg.json {
		fmt.Fprintf(out, "%s\n", page.Machine)
		if cfg.quick {
			fmt.Fprintf(out, "A quick series: a tenth of the rows and of the time. For a first look only.\n")
		}
		fmt.Fprintln(out)
	}

	begin := time.Now()
	plan := series.Plan{
		Workloads:  cfg.workloads,
		Contenders: cfg.contenders,
		Runs:       cfg.runs,
		Sizes:      cfg.sizes,
		Execute:    series.InChild(program),
		Progress:   progress(messages),
	}
	if cfg.profiles != "" {
		plan.Profile = func(run series.Run) string { return filepath.Join(cfg.profiles, profileName(run)) }
	}
	err = plan.Run(ctx, func(r *series.Result) error {
		page.Results = append(page.Results, r)
		if cfg.json {
			return report.JSON(out, r)
		}
		return report.Text(out, r)
	})
	if err != nil {
		return err
	}
	if len(page.Results) == 0 {
		return errors.New("none of the contenders takes part in any of the workloads")
	}
	page.When, page.Took = time.Now(), time.Since(begin)
	if cfg.report != "" {
		return page.Write(cfg.report)
	}
	return nil
}

// profileName returns the file name of the profile of a run.
func profileName(run series.Run) string {
	name := run.Workload + "." + run.Contender
	if run.Part != "" {
		name += "." + run.Part
	}
	return strings.ReplaceAll(name, "/", "-") + ".prof"
}

func progress(messages io.Writer) func(series.Run, int, int, time.Duration, bool) {
	return func(run series.Run, repetition, of int, took time.Duration, done bool) {
		if done {
			fmt.Fprintf(messages, "run %d of %d: %s, %.1f s\n", repetition, of, run, took.Seconds())
		}
	}
}
