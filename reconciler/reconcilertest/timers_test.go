// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// timed is the subject of operations with settings.
func timed(operations func(s *store) reconciler.Operations[*entry], set func(s *reconciler.Settings), options ...reconciler.Option) sub {
	return configured(func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{Operations: operations(s), Options: append(options, reconciler.WithSettings(set))}
	})
}

// chained keeps entries in a chain by their keys: one is made after, and removed before, that with the key before it. It is
// told of no change of another.
type chained struct{ plain }

func (c chained) beside(key string, by int) string { return string(rune(int(key[0]) + by)) }

func (c chained) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if below := c.beside(e.Key, -1); e.Key != "a" && !c.has(below) {
		return reconciler.Blocked(below)
	}
	return c.plain.Update(ctx, txn, revision, e)
}

func (c chained) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if above := c.beside(e.Key, 1); c.has(above) {
		return reconciler.Blocked(above)
	}
	return c.plain.Delete(ctx, txn, revision, e)
}

// slowly takes three seconds for each step.
type slowly struct{ plain }

func (p slowly) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if err := p.Delete(ctx, txn, revision, e); err != nil {
		return err
	}
	select {
	case <-time.After(3 * time.Second):
		return p.set(ctx, e.Key, strings.Join(e.Values, " "))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// returning removes an entry in two calls.
type returning struct{ plain }

func (r returning) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if err := r.remove(ctx, e.Key+" goes"); err != nil {
		return err
	}
	return r.plain.Update(ctx, txn, revision, e)
}

func (r returning) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if marked := e.Key + " goes"; r.has(e.Key) && !r.has(marked) {
		return edge.Do(ctx, "mark", func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.data[marked] = ""
			return reconciler.Requeue(20 * time.Minute)
		})
	}
	for _, key := range []string{e.Key, e.Key + " goes"} {
		if err := r.remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

var withTimers = []struct {
	name    string
	subject sub
}{
	{"a resync every five seconds", func() sub {
		return configured(func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{
				Operations: healthy{s}, Lister: lister{s}, Equal: equalEntries,
				Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval, s.Concurrency = 5*time.Second, 4 })},
			}
		})
	}()},
	{"blocked rows that are tried every ten seconds", func() sub {
		s := timed(func(s *store) reconciler.Operations[*entry] { return chained{plain{s}} },
			func(s *reconciler.Settings) { s.BlockedRecheck, s.Jitter = 10*time.Second, 0.5 })
		s.States = list("a b=1 c d", "a=1 b c", "a=1")
		return s
	}()},
	{"a refresh every ten seconds of operations that take three", timed(func(s *store) reconciler.Operations[*entry] { return slowly{plain{s}} },
		func(s *reconciler.Settings) { s.RefreshInterval, s.Timeout = 10*time.Second, 20*time.Second })},
	{"a prune every five seconds", timed(func(s *store) reconciler.Operations[*entry] { return healthy{s} },
		func(s *reconciler.Settings) { s.PruneInterval = 5 * time.Second })},
	{"a deletion that is continued later", timed(func(s *store) reconciler.Operations[*entry] { return returning{plain{s}} },
		func(s *reconciler.Settings) {})},
	{"a backoff of five minutes", timed(func(s *store) reconciler.Operations[*entry] { return healthy{s} },
		func(s *reconciler.Settings) { s.MinBackoff, s.MaxBackoff = 5*time.Minute, 10*time.Minute })},
	{"a breaker", timed(func(s *store) reconciler.Operations[*entry] { return healthy{s} },
		func(s *reconciler.Settings) { s.BreakerFailures = 1 })},
	{"an operation every fifteen seconds", timed(func(s *store) reconciler.Operations[*entry] { return healthy{s} },
		func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(rate.Every(15*time.Second), 1) })},
	{"a round every fifteen seconds", timed(func(s *store) reconciler.Operations[*entry] { return healthy{s} },
		func(s *reconciler.Settings) {
			s.RoundSize, s.RoundLimiter = 1, rate.NewLimiter(rate.Every(15*time.Second), 1)
		})},
}

// What a program does by its own timers meets each end of what the kit waits for, and is not blamed.
func TestProgramsWithTimersPass(t *testing.T) {
	for _, c := range withTimers {
		t.Run(c.name, func(t *testing.T) {
			c.subject.Runs = long.Times(50)
			reconcilertest.Check(t, c.subject)
		})
	}
}

// The listing at the end of a state kills the program, and there is no next state.
func TestAKillAtTheEndOfAStateIsFollowedByAStart(t *testing.T) {
	for _, c := range withTimers {
		if strings.HasPrefix(c.name, "a resync") {
			for n := range 4 {
				c.subject.Plan = fmt.Sprintf("0; kill and rewrite at %q %d", "list", n+1)
				reconcilertest.Check(t, c.subject)
			}
		}
	}
}
