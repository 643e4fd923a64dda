// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func (c *commands) wait() *spec {
	return &spec{
		name:    "reconciler/wait",
		summary: "Wait until changes, or one object, are applied or attempted",
		args:    []string{argOptionalName, argOptionalKey},
		flags: func(fs *pflag.FlagSet) {
			fs.Bool("applied", false, "Wait until the changes are in the target (the default)")
			fs.Bool("attempted", false, "Wait until the changes were attempted, with any result")
			fs.Duration("timeout", operator.Patience, "Longest time to wait; 0 returns at once")
		},
		background: true,
		detail: []string{
			"Waits for every change that is in the table now, without a name in the tables of all reconcilers. Before that it waits until what the sources of the table have now, such as a folder of files, is in the table, and fails if that cannot be; for a table that is derived from another, until that is derived. (The sources and derivations are those of the registry.) With a key it waits for that object only, or for its deletion; it does not wait for a key that is neither in the table nor tracked. At the timeout it fails, and prints what is not applied. With --attempted it succeeds when everything was attempted, and prints what failed.",
			"",
			"With & at the end of the line it waits in the background; the command wait collects it.",
		},
		examples: []string{
			"reconciler/wait routes",
			"reconciler/wait routes 10.0.0.0/24 --attempted --timeout=1m",
		},
		run: c.waitFor,
	}
}

// waited is the answer of the command: the result of a wait.
type waited struct {
	Reconciler string `json:"reconciler"`
	Key        string `json:"key,omitempty"`
	Milestone  string `json:"milestone"`
	Reached    bool   `json:"reached"`
	// Gone is true if the object is neither in the table nor tracked.
	Gone      bool     `json:"gone,omitempty"`
	Unapplied []string `json:"unapplied,omitempty"`
	More      int      `json:"more,omitempty"`
}

func (c *commands) waitFor(ctx context.Context, in *input) (output, error) {
	timeout, err := in.duration("timeout")
	if err != nil {
		return output{}, err
	}
	milestone := reconciler.Applied
	if in.is("attempted") {
		milestone = reconciler.Attempted
	}
	if in.is("attempted") && in.is("applied") {
		return output{}, errors.New("--applied and --attempted are both set")
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all := loops(c.registry.All())
	if in.reconciler != nil {
		out, err := c.waitForOne(waiting, in, milestone)
		return out, operator.Overdue(ctx, timeout, err)
	}
	data, errs, printed := make([]any, len(all)), make([]error, len(all)), ""
	for i, loop := range all {
		out, err := c.waitForOne(waiting, &input{reconciler: loop}, milestone)
		data[i], errs[i] = out.data, operator.Overdue(ctx, timeout, err)
		printed += out.last
	}
	if len(all) == 0 {
		printed = "no reconcilers\n"
	}
	return output{data: data, last: printed}, errors.Join(errs...)
}

// waitForOne waits for one reconciler, or one of its objects.
func (c *commands) waitForOne(ctx context.Context, in *input, milestone reconciler.Milestone) (output, error) {
	if err := c.awaitInputs(ctx, in.reconciler.ID().Table, map[string]bool{}); err != nil {
		return waitOutput(in, milestone, inspect.Unapplied{}, false, err), err
	}
	var rest inspect.Unapplied
	var err error
	if len(in.key) > 0 {
		rest, err = in.reconciler.WaitKey(ctx, in.key[0], milestone)
	} else {
		rest, err = in.reconciler.WaitAll(ctx, milestone)
	}
	gone := errors.Is(err, inspect.ErrNotFound)
	if gone {
		err = nil
	}
	return waitOutput(in, milestone, rest, gone, err), err
}

// awaitInputs waits until what the sources of a table have now is in the table, or in the tables that it is derived from,
// and then until the derivations have seen it. seen has the tables that were visited.
func (c *commands) awaitInputs(ctx context.Context, table string, seen map[string]bool) error {
	if seen[table] {
		return nil
	}
	seen[table] = true
	for _, s := range c.registry.Sources() {
		if s.Snapshot().Table != table {
			continue
		}
		if err := s.Loaded(ctx); err != nil {
			return fmt.Errorf("source %s: %w", text.Plain(s.Input()), err)
		}
	}
	for _, d := range c.registry.All() {
		if _, loop := d.(inspect.LoopController); loop || d.Snapshot(ctx).Output != table {
			continue
		}
		if err := c.awaitInputs(ctx, d.ID().Table, seen); err != nil {
			return err
		}
		if _, err := d.WaitAll(ctx, reconciler.Attempted); err != nil {
			return fmt.Errorf("%s: %w", text.Plain(d.ID().String()), err)
		}
	}
	return nil
}

func waitOutput(in *input, milestone reconciler.Milestone, rest inspect.Unapplied, gone bool, err error) output {
	w := waited{
		Reconciler: in.reconciler.ID().String(), Milestone: milestone.String(),
		Reached: err == nil, Gone: gone, More: rest.More,
	}
	if len(in.key) > 0 {
		w.Key = in.key[0]
	}
	printed := ""
	if gone {
		printed = in.named() + " is absent: it is not in the table, and no deletion waits\n"
	} else if err == nil {
		printed = fmt.Sprintf("%s is %s\n", in.named(), milestone)
	}
	for _, u := range rest.Keys {
		line := text.Cell(u.Error())
		w.Unapplied = append(w.Unapplied, line)
		printed += text.Printable(line) + "\n"
	}
	if w.More > 0 {
		printed += fmt.Sprintf("and %d more\n", w.More)
	}
	return output{data: w, last: printed}
}
