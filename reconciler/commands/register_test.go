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
	options := []reconciler.Option{
		reconciler.WithRegistry(w.registry),
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }), reconciler.WithRetry(100*time.Millisecond, time.Minute),
		reconciler.WithRefreshing(0, nil), reconciler.WithoutPruning(),
	}
	var class func(error) string
	var serialBy func(*machine) string
	var sweeper reconciler.Sweeper[*machine]
	cfg := reconciler.Config[*machine]{Clone: (*machine).Clone, SetStatus: (*machine).SetStatus, GetStatus: (*machine).GetStatus}
	for _, arg := range args {
		if strings.HasPrefix(arg, "classes=") {
			class = firstWord
		}
		if arg == "groups" {
			serialBy = func(r *machine) string { group, _, _ := strings.Cut(r.Name, "/"); return group }
			continue
		}
		if arg == "beside" {
			cfg = reconciler.Config[*machine]{}
			continue
		}
		option, err := optionOf(arg)
		if err != nil {
			return "", err
		}
		options = append(options, option)
		if strings.HasPrefix(arg, "sweep=") {
			sweeper = w.target
		}
	}
	cfg.Table, cfg.Operations, cfg.Sweeper, cfg.Options = w.routes, w.target, sweeper, options
	cfg.ErrorClass, cfg.SerialBy = class, serialBy
	_, err := reconciler.RegisterConfig(w.params, cfg)
	return "", err
}

func optionOf(arg string) (reconciler.Option, error) {
	name, value, _ := strings.Cut(arg, "=")
	n, _ := strconv.Atoi(value)
	d, _ := time.ParseDuration(value)
	switch name {
	case "name":
		return reconciler.WithName(value), nil
	case "workers":
		return reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n }), nil
	case "timeout":
		return reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = d }), nil
	case "retry":
		return reconciler.WithRetry(d, time.Minute), nil
	case "prune":
		return reconciler.WithPruning(d), nil
	case "sweep":
		return reconciler.WithSweepBudget(n, 0), nil
	case "breaker":
		return reconciler.WithBreaker(reconciler.Breaker{Failures: n, MinInterval: time.Second}), nil
	case "rounds":
		return reconciler.WithRoundLimits(n, nil), nil
	case "limit":
		return reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(rate.Every(d), 1) }), nil
	}
	return nil, fmt.Errorf("unknown option %q", arg)
}

// firstWord returns the class of an error.
func firstWord(err error) string {
	class, _, _ := strings.Cut(err.Error(), " ")
	return class
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
