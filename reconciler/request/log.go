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
	if c, ok := ctx.Value(callKey{}).(call); ok {
		return c.log.With("request", string(c.key))
	}
	return slog.Default()
}

// call is what the context of a call of Reconcile has, under callKey. It has the parts of a logger instead
// of a logger, since most calls do not log.
type call struct {
	log *slog.Logger
	key index.Key
}

type callKey struct{}
