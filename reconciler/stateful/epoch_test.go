// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

func TestACloneOfADeletedRowIsAppliedAgain(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			s := newServer()
			inBubble(t, s, func(e *env) {
				e.change("web", "a", "b")
				row := e.get("web")
				for range 3 {
					e.remove("web")
					require.Empty(e, s.has("web"))
					e.edit("web", func(z *zone) { *z = *row.Clone() })
					e.expect("web", "Done")
					require.Equal(e, []string{"a", "b"}, s.has("web"))
				}
				e.edit("web", func(z *zone) { *z = *row.Clone() })
				require.Equal(e, []string{"a", "b"}, s.has("web"), "a clone of an existing row")
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
		})
	}
}

func TestACloneFromAnEarlierProcessIsAppliedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), newServer()
		e.start(e.config(), s)
		e.change("web", "a")
		e.change("mail", "a")
		web, mail := e.get("web"), e.get("mail")
		e.Stop()

		e.start(e.config(), s)
		s.take()
		e.change("mail", "a")
		require.Empty(e, s.take(), "the annotation is trusted")
		e.remove("web") // not applied by this process
		e.remove("mail")
		s.take()
		e.edit("web", func(z *zone) { *z = *web.Clone() })
		e.edit("mail", func(z *zone) { *z = *mail.Clone() })
		require.Equal(e, []string{"a"}, s.has("web"))
		require.Equal(e, []string{"a"}, s.has("mail"))
	})
}

// A copy of a row under another name is a different object. The state in its annotation belongs to
// the first row.
func TestACopyUnderAnotherNameDoesNotAffectTheOriginal(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "a")
		row := e.get("web")
		e.edit("copy", func(z *zone) { *z = *row.Clone(); z.Name, z.Domain = "copy", "new" })
		require.Equal(e, []string{"a"}, s.has("old"), "it belongs to web")
		require.Equal(e, []string{"a"}, s.has("new"))
		e.remove("copy")
		require.Equal(e, []string{"a"}, s.has("old"))
		require.Empty(e, s.has("new"))
	})
}
