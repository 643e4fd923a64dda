// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/internal/pauses"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// done is the answer of a command that acts. Objects is the number of its objects; nil if they were not
// counted.
type done struct {
	Reconciler string `json:"reconciler"`
	Key        string `json:"key,omitempty"`
	Action     string `json:"action"`
	Objects    *int   `json:"objects,omitempty"`
	// Waiting lists the initialisers of the table that a prune waits for.
	Waiting []string `json:"waiting_for_initializers,omitempty"`
}

// did returns the output of a command that acts. The format and args make its text.
func (in *input) did(action string, objects *int, format string, args ...any) output {
	d := done{Reconciler: in.reconciler.ID().String(), Key: in.key, Action: action, Objects: objects}
	return output{d, func() string { return fmt.Sprintf(format+"\n", args...) }}
}

func (c *commands) pause() *spec {
	return &spec{
		name:    "reconciler/pause",
		summary: "Pause a reconciler or one object",
		args:    []string{argName, argOptionalKey},
		detail: []string{
			"Running operations finish. No new ones start until reconciler/resume: changes and retries wait. With a key only that object is paused; several objects can be paused at a time, but not while the whole reconciler is paused or the program pauses objects itself. Without a key the pause replaces those of objects.",
			"",
			"Examples:",
			"> reconciler/pause routes",
			"> reconciler/pause routes 10.0.0.0/24",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			if !in.hasKey {
				in.reconciler.Pause()
			} else if err := pauses.Add(ctx, in.reconciler, in.key); err != nil {
				return output{}, err
			}
			return in.did("pause", nil, "%s is paused, until reconciler/resume", in.named()), nil
		},
	}
}

func (c *commands) resume() *spec {
	return &spec{
		name:    "reconciler/resume",
		summary: "End a pause",
		args:    []string{argName, argOptionalKey},
		detail: []string{
			"Work that has waited is due at once. With a key only the pause of that object ends. Without a key every pause ends.",
			"",
			"Examples:",
			"> reconciler/resume routes",
			"> reconciler/resume routes 10.0.0.0/24",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			if !in.hasKey {
				in.reconciler.Resume()
			} else if err := pauses.Remove(ctx, in.reconciler, in.key); err != nil {
				return output{}, err
			}
			return in.did("resume", nil, "%s is resumed", in.named()), nil
		},
	}
}

func (c *commands) prune() *spec {
	return &spec{
		name:    "reconciler/prune",
		summary: "Ask a reconciler to prune now",
		args:    []string{argName},
		detail: []string{
			"A prune removes what the target has and the table does not. If the reconciler lists its target, this is a resync: see reconciler/resync. It runs soon, or when the table is initialised. reconciler/journal --rounds shows when it ran, and its error.",
			"",
			"Example:",
			"> reconciler/prune routes",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			in.reconciler.Prune()
			return in.prunes(in.reconciler.Snapshot(ctx)), nil
		},
	}
}

// prunes returns the output of a command that requested a prune, with the initialisers that the prune
// waits for.
func (in *input) prunes(s inspect.Snapshot) output {
	what := "prune"
	if s.Lists {
		what = "resync"
	}
	if s.Initialized {
		return in.did("prune", nil, "%s was asked to %s", in.named(), what)
	}
	out := in.named() + " will " + what + " once its table is initialised"
	var names []string
	for _, w := range s.Waiting {
		names = append(names, text.Plain(w))
	}
	if len(names) > 0 {
		out += ", which waits for " + strings.Join(names, ", ")
	}
	d := done{Reconciler: in.reconciler.ID().String(), Action: "prune", Waiting: s.Waiting}
	return output{d, func() string { return out + "\n" }}
}

func (c *commands) approve() *spec {
	return &spec{
		name:    "reconciler/approve",
		summary: "Let one resync delete beyond its budget, now",
		args:    []string{argName},
		detail: []string{
			"Use it after a resync that deleted nothing because it would have exceeded its budget (WithOrphanBudget); reconciler/show prints that under \"prune failure\". Find out first why so many objects of the target have no row. The approval is good for one resync that lists the target successfully.",
			"",
			"Example:",
			"> reconciler/approve routes",
		},
		run: func(_ context.Context, in *input) (output, error) {
			loop, ok := in.reconciler.(inspect.Loop)
			if !ok {
				return output{}, fmt.Errorf("%s is a derivation: it has no resyncs, there is nothing to approve", in.named())
			}
			if !loop.ApproveResync() {
				return output{}, fmt.Errorf("%s: no resync has stopped at its budget, there is nothing to approve", in.named())
			}
			return in.did("approve", nil, "%s: the next resync may delete beyond its budget", in.named()), nil
		},
	}
}

func (c *commands) refresh() *spec {
	return &spec{
		name:    "reconciler/refresh",
		summary: "Apply Done objects again, against drift in the target",
		args:    []string{argName, argOptionalKey},
		detail: []string{
			"With a key that object is refreshed now. Without a key all Done objects are, at the rate of the refresh limit (WithRefreshing). Objects that are not Done are left as they are; for failed ones use reconciler/retry.",
			"",
			"Examples:",
			"> reconciler/refresh routes",
			"> reconciler/refresh routes 10.0.0.0/24",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			if !in.hasKey {
				_, err := in.reconciler.Refresh(ctx)
				if err != nil {
					return output{}, err
				}
				return in.did("refresh", nil, "%s: all Done objects will be refreshed", in.named()), nil
			}
			n, err := briefly(ctx, func(ctx context.Context) (int, error) { return in.reconciler.Refresh(ctx, in.key) })
			if err != nil {
				return output{}, err
			}
			if n == 0 {
				return in.did("refresh", &n, "%s is not Done, there is nothing to refresh", in.named()), nil
			}
			return in.did("refresh", &n, "%s will be refreshed", in.named()), nil
		},
	}
}

func (c *commands) retry() *spec {
	return &spec{
		name:    "reconciler/retry",
		summary: "Retry failed and waiting objects now",
		args:    []string{argName, argOptionalKey},
		detail: []string{
			"Objects that wait for a retry, a requeue or a release become due now, and so do objects that failed for good (terminal). With a key only that object does. If an object fails again, its backoff keeps growing. While a breaker is open only its probes run.",
			"",
			"Examples:",
			"> reconciler/retry routes",
			"> reconciler/retry routes 10.0.0.0/24",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			var keys []string
			if in.hasKey {
				keys = []string{in.key}
			}
			n, err := briefly(ctx, func(ctx context.Context) (int, error) { return in.reconciler.Retry(ctx, keys...) })
			if err != nil {
				return output{}, err
			}
			if n == 0 {
				return in.did("retry", &n, "%s: no object waits for a retry", in.named()), nil
			}
			return in.did("retry", &n, "%s: %d object(s) will be retried now", in.named(), n), nil
		},
	}
}
