// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// register registers a reconciler without jitter, refreshing and pruning, unless args say otherwise.
// The status is in the rows, unless an argument is "beside".
func (w *world) register(args []string) (string, error) {
	cfg := reconciler.Config[*machine]{
		Table: w.routes, Operations: w.target,
		Clone: (*machine).Clone, SetStatus: (*machine).SetStatus, GetStatus: (*machine).GetStatus,
	}
	add := func(options ...reconciler.Option) { cfg.Options = append(cfg.Options, options...) }
	set := func(change func(*reconciler.Settings)) { add(reconciler.WithSettings(change)) }
	set(func(s *reconciler.Settings) { s.Jitter = 0 })
	add(reconciler.WithRegistry(w.registry), reconciler.WithRetry(100*time.Millisecond, time.Minute),
		reconciler.WithRefreshing(0, nil), reconciler.WithoutPruning())
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		d, _ := time.ParseDuration(value)
		switch name {
		case "beside":
			cfg.Clone, cfg.SetStatus, cfg.GetStatus = nil, nil, nil
		case "groups":
			cfg.SerialBy = func(r *machine) string { group, _, _ := strings.Cut(r.Name, "/"); return group }
		case "name":
			add(reconciler.WithName(value))
		case "workers":
			set(func(s *reconciler.Settings) { s.Concurrency = n })
		case "timeout":
			set(func(s *reconciler.Settings) { s.Timeout = d })
		case "limit":
			set(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(rate.Every(d), 1) })
		case "retry":
			add(reconciler.WithRetry(d, time.Minute))
		case "prune":
			add(reconciler.WithPruning(d))
		case "sweep":
			cfg.Sweeper = w.target
			add(reconciler.WithSweepBudget(n, 0))
		case "breaker":
			add(reconciler.WithBreaker(reconciler.Breaker{Failures: n, MinInterval: time.Second}))
		case "rounds":
			add(reconciler.WithRoundLimits(n, nil))
		default:
			return "", fmt.Errorf("unknown option %q", arg)
		}
	}
	_, err := reconciler.RegisterConfig(w.params, cfg)
	return "", err
}

// assignment parses name=value.
func assignment(arg string) (name string, value int, err error) {
	i := strings.LastIndex(arg, "=")
	if i < 0 {
		return "", 0, fmt.Errorf("%q must be name=value", arg)
	}
	value, err = strconv.Atoi(arg[i+1:])
	return arg[:i], value, err
}
