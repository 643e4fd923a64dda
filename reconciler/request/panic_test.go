// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// The text of a panic may have any length and any bytes.
func TestPanicTextsOfSourcesAreCutAndPrintable(t *testing.T) {
	health, reported := cell.NewSimpleHealth()
	inBubble(t, func(e *env) {
		e.put("web", 1)
		synctest.Wait()
		following := reported.GetChild("for-apps")
		require.NotNil(e, following)
		require.ErrorContains(e, following.Error, `panic: \x1b[2Jxxx`)
		require.Less(e, len(following.Error.Error()), reconciler.MaxErrorText+200)
		require.Contains(e, e.log.String(), "function of a source panicked")
		require.Less(e, len(e.log.String()), 4*reconciler.MaxErrorText)
		require.NotContains(e, e.log.String(), "\x1b")
	}, func(e *env, cfg *config) {
		cfg.Health = health
		cfg.Sources = from{request.For(e.apps, (*app).request, func(request.Change[*app]) bool {
			panic("\x1b[2J" + strings.Repeat("x", 1<<20))
		})}
	})
}
