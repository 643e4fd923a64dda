// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
)

// withoutConntrack is a fake kernel whose conntrack fails.
type withoutConntrack struct {
	*fake
	fails atomic.Bool
}

func (k *withoutConntrack) DeleteFlows(flows ...kernel.Flow) error {
	return k.DeleteFlowsIf(among(flows))
}

func (k *withoutConntrack) DeleteFlowsIf(stale func(kernel.Flow) bool) error {
	if k.fails.Load() {
		return errors.New("conntrack fails")
	}
	return k.fake.DeleteFlowsIf(stale)
}

// Old flows are one thing, new connections another: a conntrack that fails does not keep the table from being repaired.
func TestTableIsRepairedWhileConntrackFails(t *testing.T) {
	for name, failsFrom := range map[string]time.Duration{"from the start": 0, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &withoutConntrack{fake: newFake()}
				k.fails.Store(failsFrom == 0)
				k.counts[orphan], k.slots[kernel.Slot{Service: orphan}] = 1, elsewhere
				p, err := startedProgram(t.Context(), k)
				require.NoError(t, err)
				defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
				require.NoError(t, p.write(message{Rows: []*Service{service("web", web, 0)}}))
				time.Sleep(failsFrom + time.Second)
				want := map[string]string{web.String(): "1: [10.2.0.11:8080]"}
				require.Equal(t, want, dumpOf(k.list()), "at the start")

				k.fails.Store(true)
				k.outside(func() { clear(k.slots); clear(k.counts) })
				p.loop.Resync()
				time.Sleep(time.Minute)
				require.Equal(t, want, dumpOf(k.list()), "after somebody else has deleted everything")
			})
		})
	}
}
