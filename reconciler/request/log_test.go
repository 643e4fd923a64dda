// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// The logger names the request, also if the loop or the program derives another context.
func TestTheLoggerNamesTheRequest(t *testing.T) {
	for name, opts := range map[string][]reconciler.Option{
		"plain":    nil,
		"deadline": {reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout, s.Concurrency = time.Minute, 8 })},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.doing(func(ctx context.Context, _ request.Request) (request.Result, error) {
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					request.Logger(ctx).InfoContext(ctx, "reconciling")
					return request.Result{}, ctx.Err()
				})
				e.put("web", 1)
				e.took()
				require.Contains(e, e.log.String(), `msg=reconciling controller=shops request=shop/web`)
			}, func(_ *env, cfg *config) { cfg.Name = "shops" }, opts...)
		})
	}
}

func TestLoggerIsTheDefaultOutsideOfReconcile(t *testing.T) {
	require.Same(t, slog.Default(), request.Logger(t.Context()))
}
