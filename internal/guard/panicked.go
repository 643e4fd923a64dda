// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package guard

import (
	"log/slog"
	"runtime/debug"

	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
)

// Panicked returns, as one printable line, what a function of the program panicked with, and logs it with the stack
// and with args, which are those of [slog.Logger.Error]. A nil log gets nothing. The deferred function that has
// recovered calls it.
func Panicked(recovered any, log *slog.Logger, message string, args ...any) string {
	said := text.Cut(outcome.TextOfAny(recovered), outcome.MaxText)
	if log != nil {
		log.Error(message, append(args, "panic", said, "stack", string(debug.Stack()))...)
	}
	return text.Printable(said)
}
