// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// target is a fake target. Scripts set the outcomes of its operations, and it records the operations.
type target struct {
	mu       sync.Mutex
	state    map[string]int
	history  []string
	outcomes map[string][2]string // outcome and text by route name; "*" is for all others
	released chan struct{}
}

func newTarget() *target {
	return &target{state: map[string]int{}, outcomes: map[string][2]string{}, released: make(chan struct{})}
}

// do runs an operation: it calls change if the operation succeeds.
func (x *target) do(ctx context.Context, op, name string, change func()) error {
	x.mu.Lock()
	outcome, said := x.outcomes[name]
	if !said {
		outcome = x.outcomes["*"]
	}
	released := x.released
	x.mu.Unlock()
	err := decide(ctx, outcome[0], outcome[1], released)
	x.mu.Lock()
	defer x.mu.Unlock()
	call := op + "(" + name + ")"
	if err != nil && outcome[0] != "requeue" {
		call += " " + outcome[0]
	} else {
		change()
	}
	x.history = append(x.history, call)
	return err
}

func decide(ctx context.Context, outcome, text string, released <-chan struct{}) error {
	switch outcome {
	case "fail":
		return errors.New(text)
	case "terminal":
		return reconciler.TerminalError(errors.New(text))
	case "block":
		return reconciler.Blocked(text, released)
	case "requeue":
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		return reconciler.Requeue(d)
	case "slow":
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		time.Sleep(d)
	case "panic":
		panic(text)
	case "hang": // ignores the context
		<-released
		return ctx.Err()
	}
	return nil
}

func (x *target) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *route) error {
	op := "update"
	if r.Status.Kind == reconciler.StatusKindRefreshing {
		op = "refresh"
	}
	return x.do(ctx, op, r.Name, func() { x.state[r.Name] = r.Value })
}

func (x *target) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *route) error {
	return x.do(ctx, "delete", r.Name, func() { delete(x.state, r.Name) })
}

func (x *target) Prune(ctx context.Context, _ statedb.ReadTxn, routes iter.Seq2[*route, statedb.Revision]) error {
	wanted := map[string]bool{}
	for r := range routes {
		wanted[r.Name] = true
	}
	return x.do(ctx, "prune", "", func() {
		maps.DeleteFunc(x.state, func(name string, _ int) bool { return !wanted[name] })
	})
}

// List implements [reconciler.Sweeper].
func (x *target) List(_ context.Context, _ statedb.ReadTxn, yield func(*route) bool) error {
	x.mu.Lock()
	state := maps.Clone(x.state)
	x.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if !yield(&route{Name: name, Value: state[name]}) {
			break
		}
	}
	return nil
}

// The commands of scripts.

func (x *target) setOutcome(args []string) (string, error) {
	if len(args) < 2 {
		return "", errors.New("outcome: a name and an outcome are needed")
	}
	if !slices.Contains([]string{"ok", "fail", "terminal", "block", "requeue", "slow", "hang", "panic"}, args[1]) {
		return "", fmt.Errorf("unknown outcome %q", args[1])
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outcomes[args[0]] = [2]string{args[1], strings.Join(args[2:], " ")}
	return "", nil
}

func (x *target) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.released)
	x.released = make(chan struct{})
	clear(x.outcomes)
}

func (x *target) releaseAll([]string) (string, error) {
	x.release()
	return "", nil
}

func (x *target) expect(want []string) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	got := x.history
	x.history = nil
	if !slices.Equal(got, want) {
		return "", fmt.Errorf("operations were %q", got)
	}
	return "", nil
}

func (x *target) print([]string) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(x.state)) {
		fmt.Fprintf(&lines, "%s=%d\n", name, x.state[name])
	}
	return lines.String(), nil
}

func (x *target) leave(args []string) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, arg := range args {
		name, value, err := assignment(arg)
		if err != nil {
			return "", err
		}
		x.state[name] = value
	}
	return "", nil
}
