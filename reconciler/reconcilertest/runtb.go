// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// runTB is the testing.TB of one run, for the target: its cleanups run at the end of the run.
type runTB struct {
	testing.TB
	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
}

func newRunTB(t testing.TB, ctx context.Context) runTB {
	ctx, cancel := context.WithCancel(ctx)
	return runTB{TB: t, ctx: ctx, cancel: cancel}
}

func (t *runTB) Context() context.Context { return t.ctx }

func (t *runTB) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// end ends the context, and runs the cleanups, the last first.
func (t *runTB) end() {
	t.cancel()
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		f := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		f()
	}
}

// lifeTB is the testing.TB of one life of the program: its context and its cleanups end with it.
type lifeTB struct {
	runTB
	*life
}

func (t *lifeTB) Errorf(format string, args ...any) { t.x.Report(format, args...) }
func (t *lifeTB) Error(args ...any) {
	t.x.Report("%s", strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}
