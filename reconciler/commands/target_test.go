// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// target is a fake target of which scripts set the outcomes of the operations.
type target struct {
	*reconcilertest.Target[*machine]

	mu       sync.Mutex
	outcomes map[string][2]string // outcome and text by route name; "*" is for all others
	released chan struct{}
}

func newTarget() *target {
	x := &target{
		Target:   reconcilertest.NewTarget(func(m *machine) string { return m.Name }, (*machine).GetStatus),
		outcomes: map[string][2]string{}, released: make(chan struct{}),
	}
	x.Decide(func(ctx context.Context, c reconcilertest.Call[*machine]) error {
		x.mu.Lock()
		outcome, said := x.outcomes[c.Key]
		if !said {
			outcome = x.outcomes["*"]
		}
		released := x.released
		x.mu.Unlock()
		return decide(ctx, outcome[0], outcome[1], released)
	})
	return x
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

// List implements [reconciler.Lister].
func (x *target) List(_ context.Context, _ statedb.ReadTxn, yield func(*machine) bool) error {
	state := x.Objects()
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if !yield(state[name]) {
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
	var got []string
	for _, c := range x.Take() {
		if c.Op == "prune" || c.Revision > 0 { // else it is of leave
			got = append(got, c.String())
		}
	}
	if !slices.Equal(got, want) {
		return "", fmt.Errorf("operations were %q", got)
	}
	return "", nil
}

func (x *target) print([]string) (string, error) {
	var lines strings.Builder
	state := x.Objects()
	for _, name := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(&lines, "%s=%d\n", name, state[name].Size)
	}
	return lines.String(), nil
}

func (x *target) leave(args []string) (string, error) {
	for _, arg := range args {
		name, value, err := assignment(arg)
		if err != nil {
			return "", err
		}
		m := machineNamed(name)
		m.Size = value
		if err := x.Update(context.Background(), nil, 0, m); err != nil {
			return "", err
		}
	}
	return "", nil
}
