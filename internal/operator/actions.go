// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Done is the data of the answer of a command that acts.
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

// action is a command that acts on a reconciler, or on one of its objects.
type action struct {
	name, label, summary, detail string
	onObject                     bool
	// run acts on the object with the key, or without one on the whole reconciler. It returns the number of
	// objects, or -1 if they were not counted.
	run func(ctx context.Context, c inspect.Controller, key ...string) (int, error)
	// text describes the result, by the number of objects.
	text func(n int) string
}

// command returns the command of an action.
func (a *action) command() Command {
	c := Command{
		Name: a.name, Label: a.label, Summary: a.summary, Detail: []string{a.detail}, Args: []string{ArgName},
		Examples: []string{"reconciler/" + a.name + " routes"}, Run: a.act,
	}
	if a.onObject {
		c.Args = append(c.Args, ArgOptionalKey)
		c.Examples = append(c.Examples, c.Examples[0]+" 10.0.0.0/24")
	}
	if a.name == approve {
		c.Args, c.OnSource = append(c.Args, ArgOptionalSet), true
		c.Examples = append(c.Examples, "reconciler/approve routes/files 5e2a91c0d7f3")
	}
	return c
}

func (a *action) act(ctx context.Context, in *Input) (Answer, error) {
	acting, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	done := Done{Action: a.name}
	var named string
	var n int
	var err error
	if in.Source != nil {
		done.Source, named = in.Source.Input(), text.Plain(in.Source.Input())
		n, err = approveSource(acting, in.Source, strings.Join(in.Key, ""))
		done.Text = approvedText(n)
	} else {
		if len(in.Key) > 0 && !a.onObject {
			return Answer{}, errors.New("SET is for a source, and the name is that of a reconciler")
		}
		done.Reconciler, done.Key, named = in.Reconciler.ID().String(), strings.Join(in.Key, ""), in.Named()
		n, err = a.run(acting, in.Reconciler, in.Key...)
		done.Text = a.text(n)
	}
	if err != nil {
		return Answer{}, Overdue(ctx, Patience, err)
	}
	if n >= 0 {
		done.Objects = &n
	}
	return Answer{Data: done, Last: named + ": " + done.Text + "\n", Objects: n}, nil
}

// approveSource approves the deletions that a source holds, if they are exactly the set with this name. Without a name
// the error shows the set.
func approveSource(ctx context.Context, s inspect.Source, set string) (int, error) {
	held := s.Snapshot().Held
	switch {
	case held == nil:
		return 0, errors.New("no deletions are held, there is nothing to approve")
	case set == "":
		name := text.Plain(s.Input())
		return 0, fmt.Errorf("%d of %d rows of %s are to be deleted, such as %s: approve exactly these with reconciler/approve %s %s",
			held.Rows, held.Of, name, text.Printable(strings.Join(held.Examples, ", ")), name, text.Plain(held.Set))
	}
	return s.Approve(ctx, set)
}

func approvedText(n int) string { return fmt.Sprintf("%d row(s) were deleted", n) }

// DoneText returns what a command has done to a reconciler, or to a source, by the number of objects, or -1; empty if
// it is no command that acts.
func DoneText(name string, toSource bool, n int) string {
	for _, a := range actions {
		switch {
		case a.name != name:
		case toSource:
			return approvedText(n)
		default:
			return a.text(n)
		}
	}
	return ""
}

func always(s string) func(int) string { return func(int) string { return s } }

const approve = "approve"

// actions are in the order of their buttons.
var actions = []action{
	{
		name: "retry", label: "Retry", onObject: true,
		summary: "Retry failed and waiting objects now",
		detail:  "Objects that wait for a retry, a requeue or a release become due now, and so do objects that failed for good (terminal). With a key only that object does. If an object fails again, its backoff keeps growing. While a breaker is open only its probes run.",
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
		name: "refresh", label: "Refresh", onObject: true,
		summary: "Apply Done objects again, against drift in the target",
		detail:  "With a key that object is refreshed now. Without a key all Done objects are, at the rate of the refresh limit (WithRefreshing). Objects that are not Done are left as they are; for failed ones use reconciler/retry.",
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
		name: "prune", label: "Prune",
		summary: "Ask a reconciler to prune now",
		detail:  "A prune removes what the target has and the table does not. If the reconciler lists its target, this is a resync, and reconciler/show prints what it found. reconciler/journal --rounds shows when it ran, and its error.",
		run: func(_ context.Context, c inspect.Controller, _ ...string) (int, error) {
			c.Prune()
			return -1, nil
		},
		text: always("a prune was requested; it runs once the table is initialised and nothing holds it back"),
	},
	{
		name: approve, label: "Approve resync",
		summary: "Let one resync delete beyond its budget, or a source what it holds",
		detail:  "Use it after a resync that deleted nothing because it would have exceeded its budget (WithOrphanBudget); reconciler/show prints that under \"prune failure\". Find out first why so many objects of the target have no row. The approval is good for one resync that lists the target successfully. With the name of a source (TABLE/SOURCE) it is for the deletions that the source holds because they are too many (MaxDeletions): without SET the command shows what they are, and with it deletes exactly these.",
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
		name: "pause", label: "Pause", onObject: true,
		summary: "Pause a reconciler or one object",
		detail:  "Running operations finish. No new ones start until reconciler/resume: changes and retries wait. With a key only that object is paused; several objects can be paused at a time, but not while the whole reconciler is paused or the program pauses objects itself. Without a key the pause replaces those of objects.",
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
		name: "resume", label: "Resume", onObject: true,
		summary: "End a pause",
		detail:  "Work that has waited is due at once. With a key only the pause of that object ends. Without a key every pause ends.",
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
