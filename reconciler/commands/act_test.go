// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestActionsReachTheReconciler(t *testing.T) {
	r := routes()
	r.Approves, r.Shown.Initialized, r.None = true, true, true
	s := newShell(t, r)
	r.Explanation.Key = "7"
	for _, c := range []struct{ line, asked, prints string }{
		{"reconciler/pause agent", "pause", "agent: paused, until it is resumed\n"},
		{"reconciler/pause agent 7", `pause only ["7"]`, "agent 7: paused, until it is resumed\n"},
		{"reconciler/resume routes", "resume", "agent: resumed\n"},
		{"reconciler/resume agent 7", `pause only []`, "agent 7: resumed\n"},
		{"reconciler/prune agent", "prune", "agent: a prune was requested; it runs once the table is initialised and nothing holds it back\n"},
		{"reconciler/approve agent", "approve", "agent: the next resync may delete beyond its budget\n"},
		{"reconciler/refresh agent", "refresh []", "agent: all Done objects will be refreshed\n"},
		{"reconciler/refresh agent 7", `refresh ["7"]`, "agent 7: it is not Done, there is nothing to refresh\n"},
		{"reconciler/retry agent 7", `retry ["7"]`, "agent 7: no object waits for a retry\n"},
	} {
		s.prints(c.prints, c.line)
		require.Contains(t, r.Take(), c.asked)
	}
	r.None = false
	s.prints("agent: 1 object(s) will be retried now\n", "reconciler/retry agent")
	s.prints("agent 7: it will be refreshed\n", "reconciler/refresh agent 7")
	s.prints("{\n  \"reconciler\": \"agent\",\n  \"key\": \"7\",\n  \"action\": \"retry\",\n  \"done\": \"1 object(s) will be retried now\",\n  \"objects\": 1\n}\n",
		"reconciler/retry agent 7 --format=json")
	r.Err = errors.New("no such key")
	for _, action := range []string{"pause", "resume", "retry", "refresh"} {
		s.fails("no such key", "reconciler/"+action+" agent 7")
	}
}

func TestApproveFailsWithoutARefusedResync(t *testing.T) {
	s := newShell(t, routes())
	s.fails("no resync has stopped at its budget, there is nothing to approve", "reconciler/approve agent")
	s.fails("SET is for a source, and the name is that of a reconciler", "reconciler/approve agent 7")
	s.fails(`no reconciler "routes/files", there are: agent`, "reconciler/approve routes/files")
}

func TestCommandsOfALoopNameWhatADerivationHasNot(t *testing.T) {
	// Only the methods of the interface are there.
	s := newShell(t, struct{ inspect.Controller }{routes()})
	s.fails("agent is a derivation: it has no resyncs, there is nothing to approve", "reconciler/approve agent")
	s.fails("agent is a derivation: it has no journal", "reconciler/journal agent")
	s.fails("agent: single rows of a derivation cannot be paused", "reconciler/pause agent 7")
	s.fails("agent: single rows of a derivation cannot be paused", "reconciler/resume agent 7")
	s.prints("no reconcilers\n", "reconciler/journal")
	s.prints("agent: paused, until it is resumed\n", "reconciler/pause agent")
}

func TestWaitPrintsUnappliedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := routes()
		s := newShell(t, r)
		s.prints("agent is applied\n", "reconciler/wait agent")
		r.Rest = inspect.Unapplied{Keys: []inspect.Unreconciled{{Key: []byte("7"), State: inspect.StateRetry, Attempts: 2, Err: errors.New("refused\x1b")}}, More: 4}
		s.prints("agent 7 is attempted\n\"7\": retry after 2 attempt(s): refused\\x1b\nand 4 more\n", "reconciler/wait agent 7 --attempted")
		require.Equal(t, []string{`wait "" applied`, `wait "7" attempted`}, r.Take())
	})
}

// The error must not wrap that of a context: the engine would take it for the end of the script.
func TestScriptsCanExpectAWaitTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := routes()
		r.Err = errors.New("waiting for all")
		s := newShell(t, r)
		began := time.Now()
		s.fails("not within 3 s: waiting for all: context deadline exceeded", "reconciler/wait agent --timeout=3s")
		require.Equal(t, 3*time.Second, time.Since(began))
		_, err := s.run("! reconciler/wait agent --timeout=3s")
		require.NoError(t, err)
	})
}

// hanging is a reconciler that is in an operation which does not end.
type hanging struct{ *fake.Controller }

func (hanging) Retry(ctx context.Context, _ ...string) (int, error) {
	<-ctx.Done()
	return 0, fmt.Errorf("%w (%w)", ctx.Err(), &inspect.BusyError{With: "update of 7"})
}

func (h hanging) Refresh(ctx context.Context, keys ...string) (int, error) {
	return h.Retry(ctx, keys...)
}

func TestCommandsGiveUpOnAReconcilerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, hanging{routes()})
		for _, command := range []string{"retry agent", "retry agent 7", "refresh agent 7"} {
			began := time.Now()
			s.fails("not within 10 s: context deadline exceeded (the reconciler is busy: update of 7)", "reconciler/"+command)
			require.Equal(t, 10*time.Second, time.Since(began))
		}
	})
}

// holding is a source that holds the deletions of three rows.
type holding struct{ approved []string }

func (*holding) Input() string                { return "routes/files" }
func (*holding) Loaded(context.Context) error { return nil }
func (*holding) Snapshot() inspect.SourceSnapshot {
	return inspect.SourceSnapshot{
		Name: "routes/files", Table: "routes", Held: &inspect.HeldDeletions{Set: "5e2a", Rows: 3, Of: 9, Examples: []string{"a", "b c"}},
	}
}

func (h *holding) Approve(_ context.Context, set string) (int, error) {
	if set != "5e2a" {
		return 0, fmt.Errorf("the deletions that are held are not %s", set)
	}
	h.approved = append(h.approved, set)
	return 3, nil
}

func TestApprovalOfASourceIsForTheSetThatWasShown(t *testing.T) {
	h := &holding{}
	s := newShell(t, routes())
	s.registry.AddSource(h)
	s.fails("3 of 9 rows of routes/files would be deleted, such as a, b c: approve exactly these with reconciler/approve routes/files 5e2a",
		"reconciler/approve routes/files")
	s.fails("the deletions that are held are not 5e2b", "reconciler/approve routes/files 5e2b")
	require.Empty(t, h.approved)
	s.prints("routes/files: 3 row(s) were deleted\n", "reconciler/approve routes/files 5e2a")
	s.prints("{\n  \"source\": \"routes/files\",\n  \"action\": \"approve\",\n  \"done\": \"3 row(s) were deleted\",\n  \"objects\": 3\n}\n",
		"reconciler/approve routes/files 5e2a --format=json")
	require.Equal(t, []string{"5e2a", "5e2a"}, h.approved)
	s.fails(`no reconciler "routes/files", there are: agent`, "reconciler/retry routes/files")
}
