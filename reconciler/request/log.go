// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"log/slog"

	"github.com/cilium/statedb/index"
)

// Logger returns the logger for a call of Reconcile. ctx is the context of the call, or derived
// from it. The logger is that of [Config], with the name of the controller as "controller" and the
// key of the request as "request". For any other context Logger returns [slog.Default]. It is safe
// for concurrent use.
func Logger(ctx context.Context) *slog.Logger {
	if c, ok := ctx.Value(loggerKey{}).(*callContext); ok {
		return c.log.With("request", string(c.key))
	}
	return slog.Default()
}

// loggerKey is the context key of the callContext.
type loggerKey struct{}

// callContext is the context of a call of Reconcile. It keeps the parts of a logger instead of a
// logger, since most calls do not log.
type callContext struct {
	context.Context
	log *slog.Logger
	key index.Key
}

func (c *callContext) Value(key any) any {
	if key == (loggerKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *Controller[Req]) withLogger(ctx context.Context, row *Row[Req]) context.Context {
	return &callContext{Context: ctx, log: c.log, key: row.life.key}
}
