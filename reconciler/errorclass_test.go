// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// kinded is an error whose kind is not in its text.
type kinded struct{ kind, text string }

func (k *kinded) Error() string { return k.text }

// ErrorClass can put errors with the same text into different classes.
func TestErrorClassDistinguishesErrorsOfOneText(t *testing.T) {
	everyWayWith(t, classed(func(err error) string {
		var k *kinded
		if errors.As(err, &k) {
			return k.kind
		}
		return "none"
	}, nil), func(e *env) {
		e.target.deciding(func(c call) error {
			return &kinded{fmt.Sprint("kind ", c.id%2), "exit status 1"}
		})
		e.put(1, ids(1, 10)...)
		e.pass(10 * time.Millisecond)
		got := map[string]uint64{}
		for _, c := range e.loop.Snapshot(e.Context()).Errors {
			got[c.Class] += c.Count
		}
		require.Equal(e, map[string]uint64{"kind 0": 5, "kind 1": 5}, got)
	})
}

// The default class contains neither the key of the object nor its name, even if the key is quoted or
// shown in hexadecimal.
func TestDefaultClassContainsNoQuotedOrLongKey(t *testing.T) {
	for name, key := range map[string]func(i int) string{
		"spaces":  func(i int) string { return "web " + strings.Repeat("x", i+1) },
		"long":    func(i int) string { return strings.Repeat("x", 1100) + strings.Repeat("y", i+1) },
		"quotes":  func(i int) string { return `web"` + strings.Repeat("x", i+1) },
		"control": func(i int) string { return "web\x01" + strings.Repeat("x", i+1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loop, insert := textLoop(t, func(o *textRow) error { return fmt.Errorf("set %s: refused", o.key) })
				for i := range 5 {
					insert(key(i))
				}
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				x := loop.Snapshot(t.Context())
				require.Len(t, x.Errors, 1, "%v", x.Errors)
			})
		})
	}
}

// textRow is a row whose key is a text.
type textRow struct {
	key    string
	status reconciler.Status
}

func (k *textRow) Clone() *textRow                        { c := *k; return &c }
func (k *textRow) SetStatus(s reconciler.Status) *textRow { k.status = s; return k }
func (k *textRow) GetStatus() reconciler.Status           { return k.status }

func (k *textRow) TableHeader() []string { return []string{"Status"} }
func (k *textRow) TableRow() []string    { return []string{k.status.String()} }

// textOps are operations whose updates have the outcome of do.
type textOps struct{ do func(*textRow) error }

func (x textOps) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *textRow) error {
	return x.do(o)
}
func (x textOps) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *textRow) error {
	return nil
}

func (x textOps) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*textRow, statedb.Revision]) error {
	return nil
}

var textIndex = statedb.Index[*textRow, string]{
	Name:       "key",
	FromObject: func(k *textRow) index.KeySet { return index.NewKeySet(index.String(k.key)) },
	FromKey:    index.String, FromString: index.FromString, Unique: true,
}

// textLoop runs a loop over a table whose keys are texts. It also returns a function that inserts a
// row.
func textLoop(t *testing.T, do func(*textRow) error) (*reconciler.Loop[*textRow], func(string)) {
	db := statedb.New()
	table, err := statedb.NewTable(db, "texts", textIndex)
	require.NoError(t, err)
	cfg := reconciler.Config[*textRow]{
		DB: db, Table: table, Operations: textOps{do},
		Clone: (*textRow).Clone, SetStatus: (*textRow).SetStatus, GetStatus: (*textRow).GetStatus,
		Options: []reconciler.Option{reconciler.WithoutPruning()},
	}
	loop, err := reconciler.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return loop, func(key string) {
		wtxn := db.WriteTxn(table)
		_, _, err := table.Insert(wtxn, &textRow{key, reconciler.StatusPending()})
		require.NoError(t, err)
		wtxn.Commit()
	}
}

// If ErrorClass calls runtime.Goexit on the goroutine of the loop, the loop ends: Run returns an error,
// and no lock stays locked.
func TestGoexitOfErrorClassLeavesNoLock(t *testing.T) {
	for _, text := range []string{"no", strings.Repeat("x", 1<<20)} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.target.failing(text)
			cfg := e.config(reconciler.WithoutPruning())
			cfg.ErrorClass = func(error) string { runtime.Goexit(); return "" }
			var ended *reconciler.Loop[*object]
			err := e.runEnds(cfg, func(loop *reconciler.Loop[*object]) { ended = loop; e.put(1, 1, 2) })
			require.ErrorContains(t, err, goexitText)
			require.Contains(t, ended.Snapshot(t.Context()).Summary(), "stopped")
			require.Equal(t, inspect.StateUnknown, ended.Explain(t.Context(), "1").State)
		})
	}
}

// On a worker, runtime.Goexit in ErrorClass fails only the operation, with the same text as
// runtime.Goexit in the operation.
func TestGoexitOfErrorClassOnAWorkerIsAFailure(t *testing.T) {
	for _, kind := range operationKinds {
		t.Run(kind.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.failing(strings.Repeat("x", 1<<20))
				e.put(1, ids(1, 4)...)
				e.pass(20 * time.Millisecond)
				for _, id := range ids(1, 4) {
					require.Equal(e, goexitText, e.get(id).Status.GetError())
				}
				e.target.failing("")
				e.pass(time.Minute)
				e.eachDone()
			}, classed(func(err error) string {
				if len(err.Error()) > reconciler.MaxErrorText {
					runtime.Goexit()
				}
				return "short"
			}, kind.change), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), reconciler.WithoutPruning())
		})
	}
}

// If ErrorClass panics, the error has no class, and the loop and the program go on.
func TestErrorClassThatPanicsYieldsNoClass(t *testing.T) {
	everyWayWith(t, classed(func(error) string { panic(panicText) }, nil), func(e *env) {
		e.target.failing("down")
		e.put(1, ids(1, 20)...)
		e.pass(time.Second)
		require.Contains(e, e.Logged(), "Config.ErrorClass panicked")
		e.status(1, reconciler.StatusKindError, "down")
		e.target.failing("")
		e.pass(time.Minute)
		e.eachDone()
	})
}
