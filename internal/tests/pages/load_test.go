// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestWorkersAndBreaker(t *testing.T) {
	reconcilertest.Run(t, newRoutes, func(e *reconcilertest.Env[*Route]) {
		began := time.Now()
		server := reconcilertest.NewTarget(getPrefix, nil)
		server.Decide(func(ctx context.Context, _ reconcilertest.Call[*Route]) error {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) < time.Minute {
				return errors.New("connection refused")
			}
			return nil
		})
		e.Start(reconciler.Config[*Route]{
			Operations: server,
			SerialBy:   func(r *Route) string { return r.Device }, // one operation at a time for each device
			Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) {
				s.Concurrency, s.Timeout, s.BreakerFailures = 4, time.Second, 10
			})},
		})
		for i := range 100 {
			e.Insert(&Route{Prefix: strconv.Itoa(i), Device: strconv.Itoa(i % 8)})
		}
		e.Pass(time.Minute)
		if n := len(server.Take()); n > 200 {
			e.Errorf("the server was called %d times in a minute although it was down", n)
		}
		e.WaitApplied(3 * time.Second)
	})
}
