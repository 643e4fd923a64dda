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
		args:    []string{argName, argOptionalKey},
		flags: func(fs *pflag.FlagSet) {
			fs.Bool("applied", false, "Wait until the changes are in the target (the default)")
			fs.Bool("attempted", false, "Wait until the changes were attempted, with any result")
			fs.Duration("timeout", operator.Patience, "Longest time to wait; 0 returns at once")
		},
		background: true,
		detail: []string{
			"Waits for every change that is in the table now. With a key it waits for that object only, or for its deletion; it does not wait for a key that is neither in the table nor tracked. At the timeout it fails, and prints what is not applied. With --attempted it succeeds when everything was attempted, and prints what failed.",
			"",
			"With & at the end of the line it waits in the background; the command wait collects it.",
		},
		examples: []string{
			"reconciler/wait routes",
			"reconciler/wait routes 10.0.0.0/24 --attempted --timeout=1m",
		},
		run: waitFor,
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

func waitFor(ctx context.Context, in *input) (output, error) {
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
	var rest inspect.Unapplied
	if len(in.key) > 0 {
		rest, err = in.reconciler.WaitKey(waiting, in.key[0], milestone)
	} else {
		rest, err = in.reconciler.WaitAll(waiting, milestone)
	}
	gone := errors.Is(err, inspect.ErrNotFound)
	if gone {
		err = nil
	}
	if err != nil {
		err = operator.Overdue(ctx, timeout, err)
	}
	return waitOutput(in, milestone, rest, gone, err), err
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
