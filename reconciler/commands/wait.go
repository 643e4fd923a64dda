// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// wait is the command that only a shell has: a page does not wait.
var wait = operator.Command{
	Name: "wait", Args: []string{operator.ArgOptionalName, operator.ArgOptionalKey}, Waits: true, Run: waitFor,
	Summary: "Wait until changes, or one object, are applied or attempted",
	Flags: []operator.Flag{
		{Name: "applied", Usage: "Wait until the changes are in the target (the default)", Default: false},
		{Name: "attempted", Usage: "Wait until the changes were attempted, with any result", Default: false},
		{Name: "timeout", Usage: "Longest time to wait; 0 returns at once", Default: operator.Patience},
	},
	Detail: []string{
		"Waits for every change that is in the table now, without a name in the tables of all reconcilers. Before that it waits until what the sources of the table have now, such as a folder of files, is in the table, and fails if that cannot be; for a table that is derived from another, until that is derived. (The sources and derivations are those of the registry.) With a key it waits for that object only, or for its deletion; it does not wait for a key that is neither in the table nor tracked. At the timeout it fails, and prints what is not applied. With --attempted it succeeds when everything was attempted, and prints what failed.",
		"",
		"With & at the end of the line it waits in the background; the command wait collects it.",
	},
	Examples: []string{
		"reconciler/wait routes",
		"reconciler/wait routes 10.0.0.0/24 --attempted --timeout=1m",
	},
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

func waitFor(ctx context.Context, in *operator.Input) (operator.Answer, error) {
	timeout, err := in.Duration("timeout")
	if err != nil {
		return operator.Answer{}, err
	}
	milestone := reconciler.Applied
	if in.Is("attempted") {
		milestone = reconciler.Attempted
	}
	if in.Is("attempted") && in.Is("applied") {
		return operator.Answer{}, errors.New("--applied and --attempted are both set")
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if in.Reconciler != nil {
		w, printed, err := waitForOne(waiting, in, milestone)
		return operator.Answer{Data: w, Last: printed}, operator.Overdue(ctx, timeout, err)
	}
	all := operator.Loops(in.Registry.All())
	data, errs := make([]waited, len(all)), make([]error, len(all))
	a := operator.Answer{Data: data}
	for i, loop := range all {
		w, printed, err := waitForOne(waiting, &operator.Input{Registry: in.Registry, Reconciler: loop}, milestone)
		data[i], errs[i] = w, operator.Overdue(ctx, timeout, err)
		a.Last += printed
	}
	if len(all) == 0 {
		a.Last = "no reconcilers\n"
	}
	return a, errors.Join(errs...)
}

// waitForOne waits for one reconciler, or one of its objects. It returns the result as data and for people.
func waitForOne(ctx context.Context, in *operator.Input, milestone reconciler.Milestone) (w waited, printed string, err error) {
	w = waited{Reconciler: in.Reconciler.ID().String(), Milestone: milestone.String()}
	var rest inspect.Unapplied
	if err = awaitInputs(ctx, in.Registry, in.Reconciler.ID().Table, map[string]bool{}); err != nil {
		// The loop is not asked.
	} else if len(in.Key) > 0 {
		w.Key = in.Key[0]
		rest, err = in.Reconciler.WaitKey(ctx, w.Key, milestone)
	} else {
		rest, err = in.Reconciler.WaitAll(ctx, milestone)
	}
	if w.Gone = errors.Is(err, inspect.ErrNotFound); w.Gone {
		err = nil
		printed = in.Named() + " is absent: it is not in the table, and no deletion waits\n"
	} else if err == nil {
		printed = fmt.Sprintf("%s is %s\n", in.Named(), milestone)
	}
	w.Reached, w.More = err == nil, rest.More
	for _, u := range rest.Keys {
		line := text.Cell(u.Error())
		w.Unapplied = append(w.Unapplied, line)
		printed += text.Printable(line) + "\n"
	}
	if w.More > 0 {
		printed += fmt.Sprintf("and %d more\n", w.More)
	}
	return w, printed, err
}

// awaitInputs waits until what the sources of a table have now is in the table, or in the tables that it is derived from,
// and then until the derivations have seen it. seen has the tables that were visited.
func awaitInputs(ctx context.Context, registry *inspect.Registry, table string, seen map[string]bool) error {
	if seen[table] {
		return nil
	}
	seen[table] = true
	for _, s := range registry.Sources() {
		if s.Snapshot().Table != table {
			continue
		}
		if err := s.Loaded(ctx); err != nil {
			return fmt.Errorf("source %s: %w", text.Plain(s.Input()), err)
		}
	}
	for _, d := range registry.All() {
		if _, loop := d.(inspect.LoopController); loop || d.Snapshot(ctx).Output != table {
			continue
		}
		if err := awaitInputs(ctx, registry, d.ID().Table, seen); err != nil {
			return err
		}
		if _, err := d.WaitAll(ctx, reconciler.Attempted); err != nil {
			return fmt.Errorf("%s: %w", text.Plain(d.ID().String()), err)
		}
	}
	return nil
}
