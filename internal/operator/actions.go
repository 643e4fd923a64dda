// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package operator has what a person can do to a reconciler, and what lists a person can ask for: the
// commands of the shell and the buttons and pages of package debug are made of it. It has no state, except
// that it changes the set of the keys that are paused, one call at a time.
package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Action is something that a person can do to a reconciler, or to one of its objects.
type Action struct {
	// Name is the name of the command, after "reconciler/", and of the path of the page. Label is the text
	// of the button.
	Name, Label string
	// Summary and Detail are the help of the command.
	Summary, Detail string
	// OnObject is true if the action can be for one object.
	OnObject bool
	// run acts on the object with the key, or without one on the whole reconciler. It returns the number of
	// objects, or -1 if they were not counted.
	run func(ctx context.Context, c inspect.Controller, key ...string) (int, error)
	// text describes the result, by the number of objects.
	text func(n int) string
}

// Done is the answer to an action.
type Done struct {
	Reconciler string `json:"reconciler,omitempty"`
	Source     string `json:"source,omitempty"`
	Key        string `json:"key,omitempty"`
	Action     string `json:"action"`
	// Text is the result for people.
	Text string `json:"done"`
	// Objects is the number of objects; nil if they were not counted.
	Objects *int `json:"objects,omitempty"`
}

// Patience bounds an action: a reconciler that is in an operation takes it only after that.
const Patience = 10 * time.Second

// Do acts on the object with the key, or without one on the whole reconciler.
func (a *Action) Do(ctx context.Context, c inspect.Controller, key ...string) (Done, error) {
	acting, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	n, err := a.run(acting, c, key...)
	if err != nil {
		return Done{}, Overdue(ctx, Patience, err)
	}
	done := Done{Reconciler: c.ID().String(), Action: a.Name, Text: a.text(n)}
	if len(key) > 0 {
		done.Key = key[0]
	}
	if n >= 0 {
		done.Objects = &n
	}
	return done, nil
}

// Overdue returns the error of a call that may have reached its timeout. If it has, the error does not wrap
// that of the context: hive's script engine takes such an error for the end of the script, and a script
// could not expect it.
func Overdue(ctx context.Context, timeout time.Duration, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not within %s: %s", text.Duration(timeout), text.Printable(err.Error()))
	}
	return err
}

// Text returns the text of an action's result for people, by the number of objects; empty if there is no
// such action.
func Text(name string, n int) string {
	for _, a := range Actions {
		if a.Name == name {
			return a.text(n)
		}
	}
	return ""
}

func always(s string) func(int) string { return func(int) string { return s } }

// Actions are all actions, in the order of their buttons.
var Actions = []Action{
	{
		Name: "retry", Label: "Retry", OnObject: true,
		Summary: "Retry failed and waiting objects now",
		Detail:  "Objects that wait for a retry, a requeue or a release become due now, and so do objects that failed for good (terminal). With a key only that object does. If an object fails again, its backoff keeps growing. While a breaker is open only its probes run.",
		run: func(ctx context.Context, c inspect.Controller, key ...string) (int, error) {
			return c.Retry(ctx, key...)
		},
		text: func(n int) string {
			if n == 0 {
				return "no object waits for a retry"
			}
			return fmt.Sprintf("%d object(s) will be retried now", n)
		},
	},
	{
		Name: "refresh", Label: "Refresh", OnObject: true,
		Summary: "Apply Done objects again, against drift in the target",
		Detail:  "With a key that object is refreshed now. Without a key all Done objects are, at the rate of the refresh limit (WithRefreshing). Objects that are not Done are left as they are; for failed ones use reconciler/retry.",
		run: func(ctx context.Context, c inspect.Controller, key ...string) (int, error) {
			n, err := c.Refresh(ctx, key...)
			if len(key) == 0 {
				n = -1
			}
			return n, err
		},
		text: func(n int) string {
			switch {
			case n < 0:
				return "all Done objects will be refreshed"
			case n == 0:
				return "it is not Done, there is nothing to refresh"
			}
			return "it will be refreshed"
		},
	},
	{
		Name: "prune", Label: "Prune",
		Summary: "Ask a reconciler to prune now",
		Detail:  "A prune removes what the target has and the table does not. If the reconciler lists its target, this is a resync, and reconciler/show prints what it found. reconciler/journal --rounds shows when it ran, and its error.",
		run: func(_ context.Context, c inspect.Controller, _ ...string) (int, error) {
			c.Prune()
			return -1, nil
		},
		text: always("a prune was requested; it runs once the table is initialised and nothing holds it back"),
	},
	{
		Name: "approve", Label: "Approve resync",
		Summary: "Let one resync delete beyond its budget, or a source what it holds",
		Detail:  "Use it after a resync that deleted nothing because it would have exceeded its budget (WithOrphanBudget); reconciler/show prints that under \"prune failure\". Find out first why so many objects of the target have no row. The approval is good for one resync that lists the target successfully. With the name of a source (TABLE/SOURCE) it is for the deletions that the source holds because they are too many (MaxDeletions): without SET the command shows what they are, and with it deletes exactly these.",
		run: func(_ context.Context, c inspect.Controller, _ ...string) (int, error) {
			loop, ok := c.(inspect.LoopController)
			if !ok {
				return -1, fmt.Errorf("%s is a derivation: it has no resyncs, there is nothing to approve", text.Plain(c.ID().String()))
			}
			if !loop.ApproveResync() {
				return -1, errors.New("no resync has stopped at its budget, there is nothing to approve")
			}
			return -1, nil
		},
		text: always("the next resync may delete beyond its budget"),
	},
	{
		Name: "pause", Label: "Pause", OnObject: true,
		Summary: "Pause a reconciler or one object",
		Detail:  "Running operations finish. No new ones start until reconciler/resume: changes and retries wait. With a key only that object is paused; several objects can be paused at a time, but not while the whole reconciler is paused or the program pauses objects itself. Without a key the pause replaces those of objects.",
		run: func(ctx context.Context, c inspect.Controller, key ...string) (int, error) {
			if len(key) > 0 {
				return -1, Pause(ctx, c, key...)
			}
			c.Pause()
			return -1, nil
		},
		text: always("paused, until it is resumed"),
	},
	{
		Name: "resume", Label: "Resume", OnObject: true,
		Summary: "End a pause",
		Detail:  "Work that has waited is due at once. With a key only the pause of that object ends. Without a key every pause ends.",
		run: func(ctx context.Context, c inspect.Controller, key ...string) (int, error) {
			if len(key) > 0 {
				return -1, Resume(ctx, c, key...)
			}
			c.Resume()
			return -1, nil
		},
		text: always("resumed"),
	},
}
