// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// config holds the settings of the command line.
type config struct {
	workloads  []workload.Workload
	contenders []string
	runs       int // 0: as often as each workload says
	sizes      workload.Sizes
	quick      bool
	json       bool
	profiles   string // folder; "" for none
	report     string // file; "" for none
}

// parse reads the command line. Usage and flag errors go to messages. An error names the wrong argument, and
// the valid names.
func parse(args []string, messages io.Writer) (config, error) {
	var (
		cfg                   config
		workloads, contenders string
	)
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.StringVar(&workloads, "workloads", "", "run only these workloads, as `names` separated by commas")
	flags.StringVar(&contenders, "contenders", "", "run only these contenders, as `names` separated by commas")
	flags.IntVar(&cfg.runs, "runs", 0, "run each contender `n` times (0: as often as the workload says, once with -quick)")
	flags.BoolVar(&cfg.quick, "quick", false, "a tenth of the rows and of the time, for a first look")
	flags.BoolVar(&cfg.json, "json", false, "print one JSON object a line instead of text")
	flags.StringVar(&cfg.profiles, "cpuprofile", "", "write CPU profiles of the first runs into this `folder`, one a workload and contender")
	flags.StringVar(&cfg.report, "report", "", "write a Markdown page to this `file`, and its chart and data beside it")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	var err error
	if cfg.runs < 0 {
		err = fmt.Errorf("-runs %d: must not be negative", cfg.runs)
	}
	names, errWorkloads := chosen("workload", workloads, workloadNames())
	var errContenders error
	cfg.contenders, errContenders = chosen("contender", contenders, contenderNames())
	if err := errors.Join(err, errWorkloads, errContenders); err != nil {
		return config{}, err
	}
	for _, w := range workload.All() {
		if slices.Contains(names, w.Name) {
			cfg.workloads = append(cfg.workloads, w)
		}
	}
	cfg.sizes = workload.Full()
	if cfg.quick {
		cfg.sizes = workload.Quick()
		if cfg.runs == 0 {
			cfg.runs = 1
		}
	}
	return cfg, nil
}

// chosen returns the names in a list separated by commas, or all known names if the list is empty. A name that
// is not known is an error.
func chosen(kind, list string, known []string) ([]string, error) {
	if list == "" {
		return known, nil
	}
	names := strings.Split(list, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if !slices.Contains(known, names[i]) {
			return nil, fmt.Errorf("unknown %s %q; known are %s", kind, names[i], strings.Join(known, ", "))
		}
	}
	return names, nil
}

func workloadNames() []string {
	var names []string
	for _, w := range workload.All() {
		names = append(names, w.Name)
	}
	return names
}

func contenderNames() []string {
	var names []string
	for _, c := range subject.Contenders() {
		names = append(names, c.Name)
	}
	return names
}
