// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// plan is the command that shows what a resync would do.
func (c *commands) plan() *spec {
	return &spec{
		name:    "reconciler/plan",
		summary: "Show what a resync would do now, without doing it",
		args:    []string{argOptionalName},
		flags: func(fs *pflag.FlagSet) {
			fs.Duration("timeout", operator.PlanPatience, "Longest time to wait for the table and the listing; 0 returns at once")
		},
		background: true,
		detail: []string{
			"Lists the target, without a name those of all reconcilers that list one, and compares it with the rows of now: objects that no row wants (orphan), rows that the target does not have (missing) or has otherwise (different), and how many are equal. Rows that are not applied yet are compared, too. No operation is called. It works while the reconciler is paused, and waits until the table is initialised and for a listing that runs.",
			"",
			"Up to 200 differences are printed, with long texts cut.",
		},
		examples: []string{"reconciler/plan routes"},
		run:      c.runPlan,
	}
}

// runPlan plans for one reconciler, or for all.
func (c *commands) runPlan(ctx context.Context, in *input) (output, error) {
	timeout, err := in.duration("timeout")
	if err != nil {
		return output{}, err
	}
	if in.reconciler != nil {
		p, err := operator.Plan(ctx, in.reconciler, timeout)
		if err != nil {
			return output{}, err
		}
		in.toDo = p.Operations() > 0
		return output{data: p, report: p.Report()}, nil
	}
	plans, errs, printed := []inspect.Plan{}, []error{}, ""
	for _, loop := range loops(c.registry.All()) {
		if !loop.Snapshot(ctx).Lists {
			continue
		}
		p, err := operator.Plan(ctx, loop, timeout)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		in.toDo = in.toDo || p.Operations() > 0
		report := p.Report()
		typeable(&report.Tables[0])
		plans, printed = append(plans, p), printed+report.String()
	}
	if len(plans)+len(errs) == 0 {
		return output{}, errors.New("no reconciler lists its target")
	}
	return output{data: plans, last: printed}, errors.Join(errs...)
}
