// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// pod is a row of a further input. Its labels are "a=b", separated by spaces.
type pod struct {
	Name, Labels, Addr string
}

func (p *pod) TableHeader() []string { return []string{"Name", "Labels", "Addr"} }
func (p *pod) TableRow() []string    { return []string{p.Name, p.Labels, p.Addr} }

// node is a row of another one.
type node struct{ Name, Zone string }

func (n *node) TableHeader() []string { return []string{"Name", "Zone"} }
func (n *node) TableRow() []string    { return []string{n.Name, n.Zone} }

var (
	byPodName = indexBy(func(p *pod) string { return p.Name })
	byNode    = indexBy(func(n *node) string { return n.Name })
)

// byLabel has a key for each label. It panics for pods with the address "odd" while odd is set.
func byLabel(odd *atomic.Bool) statedb.Index[*pod, string] {
	return statedb.Index[*pod, string]{
		Name: "label", FromKey: index.String,
		FromObject: func(p *pod) index.KeySet {
			if odd.Load() && p.Addr == "odd" {
				panic("odd pod")
			}
			return index.StringSlice(strings.Fields(p.Labels))
		},
	}
}

// joined is a database with three inputs: wishes, whose Places are the labels that they select, pods and nodes. A wish
// derives a route for each pod that has all of its labels, whose From has the zone of the node NAME of the wish.
type joined struct {
	*env
	pods  statedb.RWTable[*pod]
	nodes statedb.RWTable[*node]
	label *derive.Joined[*pod, string]
	zone  *derive.Joined[*node, string]
	odd   atomic.Bool
	calls atomic.Int64
}

func withJoins(t *testing.T, test func(e *joined)) {
	synctest.Test(t, func(t *testing.T) { test(newJoined(t)) })
}

func newJoined(t *testing.T) *joined {
	e := &joined{env: newEnv(t)}
	e.pods = newTable(e.env, "pods", byPodName, statedb.Indexer[*pod](byLabel(&e.odd)))
	e.nodes = newTable(e.env, "nodes", byNode)
	e.lookups()
	return e
}

func (e *joined) lookups() {
	e.label = derive.Lookup(e.pods.ToTable(), byLabel(&e.odd))
	e.zone = derive.Lookup(e.nodes.ToTable(), byNode)
}

func (e *joined) make(f func(*derive.Reader, *wish) ([]*route, error)) *derived {
	return e.made(derive.EachOf(e.cfg, e.wishes, e.routes, f, e.label, e.zone))
}

// selects is the function of most tests.
func (e *joined) selects(r *derive.Reader, w *wish) (out []*route, err error) {
	e.calls.Add(1)
	zone := "none"
	if n, _, found := e.zone.Get(r, w.Name); found {
		zone = n.Zone
	}
	labels := strings.Fields(w.Places)
	var pods iter.Seq2[*pod, statedb.Revision]
	if len(labels) > 0 {
		pods = e.label.List(r, labels[0])
	} else {
		pods = e.label.All(r)
	}
	for p := range pods {
		if hasAll(p, labels) {
			out = append(out, &route{Place: w.Name + ":" + p.Name, From: zone + ":" + p.Addr})
		}
	}
	if w.Fail == "error" {
		return nil, errors.New("no route")
	}
	return out, nil
}

func hasAll(p *pod, labels []string) bool {
	return !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(strings.Fields(p.Labels), l) })
}

// commit runs a transaction of all inputs.
func (e *joined) commit(write func(wtxn statedb.WriteTxn)) {
	wtxn := e.db.WriteTxn(e.wishes, e.pods, e.nodes)
	write(wtxn)
	wtxn.Commit()
	synctest.Wait()
}

func put[Row any](e *joined, wtxn statedb.WriteTxn, table statedb.RWTable[Row], rows ...Row) {
	for _, row := range rows {
		_, _, err := table.Insert(wtxn, row)
		require.NoError(e, err)
	}
}

// called requires the number of calls of the function since the last look.
func (e *joined) called(n int) {
	e.Helper()
	require.EqualValues(e, n, e.calls.Swap(0))
}

func TestChangeOfALookedUpRowDerivesExactlyItsReaders(t *testing.T) {
	withJoins(t, func(e *joined) {
		e.run(e.make(e.selects))
		e.put(&wish{Name: "a", Places: "app=web"}, &wish{Name: "b", Places: "app=db"}, &wish{Name: "c", Places: "app=web"})
		e.called(3)
		e.has()
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "app=web x=y", "1"}) })
		e.called(2)
		e.has("a:p<-none:1", "c:p<-none:1")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "app=db", "2"}) })
		e.called(3) // the old key has two readers, the new one has one
		e.has("b:p<-none:2")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.nodes, &node{"b", "z1"}, &node{"x", "z2"}) })
		e.called(1)
		e.has("b:p<-z1:2")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"q", "", "3"}, &pod{"r", "app=other", "3"}) })
		e.called(0)
		e.commit(func(wtxn statedb.WriteTxn) {
			_, _, err := e.pods.Delete(wtxn, &pod{Name: "p"})
			require.NoError(e, err)
		})
		e.called(1)
		e.has()
	})
}

// A row runs once a snapshot, however many changes concern it, and all inputs are seen at once.
func TestOneTransactionOverSeveralInputsIsOneCall(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		e.run(d)
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "l"}, &wish{Name: "all"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"}, &pod{"q", "l", "1"})
			put(e, wtxn, e.nodes, &node{"a", "z"}, &node{"b", "z"})
		})
		e.called(3)
		e.has("a:p<-z:1", "a:q<-z:1", "all:p<-none:1", "all:q<-none:1", "b:p<-z:1", "b:q<-z:1")
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "2"}, &pod{"q", "l m", "2"})
			put(e, wtxn, e.nodes, &node{"a", "y"}, &node{"b", "y"})
		})
		e.called(3)
		f := d.Figures()
		require.EqualValues(e, 6, f.Updates.Done)
		require.Equal(e, 6, f.Edges)
		require.Equal(e, 1, f.EdgesToAll)
		require.Equal(e, "wishes", f.Calls[0].State)
		require.Equal(e, 4, f.Calls[0].Count)
		require.Equal(e, 2, f.Calls[1].Count+f.Calls[2].Count)
		require.Contains(e, d.Snapshot(e.Context()).String(), "6, of a whole table 1")
	})
}

// lag holds back what an iterator knows of, as between the moment when a commit is visible and that when it tells.
type lag[Row any] struct {
	statedb.ChangeIterator[Row]
	mu   sync.Mutex
	held chan struct{}
}

func (l *lag[Row]) Next(txn statedb.ReadTxn) (iter.Seq2[statedb.Change[Row], statedb.Revision], <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return func(func(statedb.Change[Row], statedb.Revision) bool) {}, l.held
	}
	return l.ChangeIterator.Next(txn)
}

func (l *lag[Row]) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
}

func (l *lag[Row]) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held)
	l.held = nil
}

func TestRoundWaitsUntilEachIteratorKnowsOfItsSnapshot(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		var wishes lag[*wish]
		var pods lag[*pod]
		d.WrapChanges(func(real statedb.ChangeIterator[*wish]) statedb.ChangeIterator[*wish] {
			wishes.ChangeIterator = real
			return &wishes
		})
		e.label.WrapChanges(func(real statedb.ChangeIterator[*pod]) statedb.ChangeIterator[*pod] {
			pods.ChangeIterator = real
			return &pods
		})
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "b"})
		for i, late := range []interface {
			hold()
			tell()
		}{&wishes, &pods} {
			e.calls.Store(0)
			before := e.revision()
			late.hold()
			e.commit(func(wtxn statedb.WriteTxn) {
				put(e, wtxn, e.wishes, &wish{Name: "b", Places: "l"})
				put(e, wtxn, e.pods, &pod{"p", "l", fmt.Sprint(i)})
				put(e, wtxn, e.nodes, &node{"a", fmt.Sprint(i)})
			})
			require.Equal(e, before, e.revision(), "nothing of the transaction is in the output")
			e.called(0)
			late.tell()
			synctest.Wait()
			e.called(2)
			e.has(fmt.Sprintf("a:p<-%d:%d", i, i), fmt.Sprintf("b:p<-none:%d", i))
		}
		pods.hold()
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "9"}) })
		stop() // it ends though the iterator does not tell
		pods.tell()
		e.run(d)
		e.has("a:p<-1:9", "b:p<-none:9")
	})
}

func TestFailedCallKeepsTheEdgesOfTheLastGoodOne(t *testing.T) {
	withJoins(t, func(e *joined) {
		broken := false
		d := e.make(func(r *derive.Reader, w *wish) ([]*route, error) {
			e.calls.Add(1)
			if broken {
				e.label.Get(r, "second")
				return nil, errors.New("broken")
			}
			_, _, found := e.label.Get(r, "first")
			return []*route{{Place: "1", From: fmt.Sprint(found)}}, nil
		})
		e.run(d)
		e.put(&wish{Name: "a"})
		e.has("1<-false")
		broken = true
		e.put(&wish{Name: "a", Metric: 1})
		e.called(2)
		for range 2 {
			e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "second", ""}) })
			e.called(1)
		}
		require.Equal(e, 2, d.Figures().Edges)
		broken = false
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"q", "first", ""}) })
		e.called(1)
		e.has("1<-true")
		e.healthy()
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "second third", ""}) })
		e.called(0)
		require.Equal(e, 1, d.Figures().Edges)
		e.remove("a")
		require.Zero(e, d.Figures().Edges)
	})
}

func TestIndexThatPanicsIsAnErrorOfItsRow(t *testing.T) {
	withJoins(t, func(e *joined) {
		var log strings.Builder
		e.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		d := e.make(e.selects)
		e.run(d)
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "m"})
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "odd"}, &pod{"q", "m", "1"}) })
		e.has("a:p<-none:odd", "b:q<-none:1")
		// statedb calls the index before the commit, the derivation after it.
		wtxn := e.db.WriteTxn(e.pods)
		put(e, wtxn, e.pods, &pod{"p", "m", "odd"}, &pod{"q", "m", "2"})
		e.odd.Store(true)
		wtxn.Commit()
		synctest.Wait()
		require.Equal(e, 1, strings.Count(log.String(), "index panicked"), "once a round")
		e.has("b:p<-none:odd", "b:q<-none:2")
		e.healthy(`row pods/p: the index "label" panicked: odd pod`)
		require.Equal(e, 1, d.Snapshot(e.Context()).Failing)
		require.ErrorIs(e, e.waits(d, reconciler.Applied), context.DeadlineExceeded)
		require.Equal(e, inspect.StateTerminal, d.Explain(e.Context(), "pods/p").State)
		e.odd.Store(false)
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "", "3"}) })
		e.has("b:q<-none:2")
		e.healthy()
		require.NoError(e, e.waits(d, reconciler.Applied))
	})
}

// The rows that looked it up are derived again all the same, and the error is not kept for a row that is fine or gone.
func TestIndexThatPanicsAtAnOldVersionIsNoErrorOfTheRow(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		e.run(d)
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "m"})
		for _, change := range []func(wtxn statedb.WriteTxn){
			func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "m", "1"}) },
			func(wtxn statedb.WriteTxn) { require.NoError(e, e.pods.DeleteAll(wtxn)) },
		} {
			e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "odd"}) })
			e.has("a:p<-none:odd")
			wtxn := e.db.WriteTxn(e.pods)
			change(wtxn)
			e.odd.Store(true)
			wtxn.Commit()
			synctest.Wait()
			require.NotContains(e, e.contents(), "a:p<-none:odd")
			e.healthy()
			require.NoError(e, e.waits(d, reconciler.Applied))
			e.odd.Store(false)
		}
	})
}

// Only one of the further inputs of the table has the index.
func TestIndexThatPanicsIsAnErrorBesideAnotherIndex(t *testing.T) {
	for _, first := range []bool{true, false} {
		withJoins(t, func(e *joined) {
			name := derive.Lookup(e.pods.ToTable(), byPodName)
			f := func(r *derive.Reader, w *wish) ([]*route, error) {
				_, _, found := name.Get(r, w.Name)
				_, _, selected := e.label.Get(r, w.Places)
				return []*route{{Place: w.Name, From: fmt.Sprint(found, selected)}}, nil
			}
			var d *derived
			if first {
				d = e.made(derive.EachOf(e.cfg, e.wishes, e.routes, f, e.label, name))
			} else {
				d = e.made(derive.EachOf(e.cfg, e.wishes, e.routes, f, name, e.label))
			}
			e.run(d)
			e.put(&wish{Name: "p q", Places: "l"})
			wtxn := e.db.WriteTxn(e.pods)
			put(e, wtxn, e.pods, &pod{"p q", "l", "odd"})
			e.odd.Store(true)
			wtxn.Commit()
			synctest.Wait()
			e.has("p q<-true true")
			e.healthy(`row pods/"p q": the index "label" panicked: odd pod`)
			ex := d.Explain(e.Context(), "pods/p q")
			require.Equal(e, inspect.StateTerminal, ex.State)
			require.Contains(e, ex.Error, "odd pod")
			require.Equal(e, `1 row(s) of table "wishes" depend on it`, ex.Why)
		})
	}
}

func TestIndexThatEndsItsGoroutineLosesNoChange(t *testing.T) {
	withJoins(t, func(e *joined) {
		var ends atomic.Bool
		label := byLabel(&e.odd)
		fromObject := label.FromObject
		label.FromObject = func(p *pod) index.KeySet {
			if ends.Load() {
				runtime.Goexit()
			}
			return fromObject(p)
		}
		e.label = derive.Lookup(e.pods.ToTable(), label)
		d := e.make(e.selects)
		ended := make(chan error, 1)
		go func() { ended <- d.Run(e.Context()) }()
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "m"})
		ends.Store(true)
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "1"}, &pod{"q", "m", "2"}) })
		require.ErrorContains(e, <-ended, "a function of the program called runtime.Goexit")
		ends.Store(false)
		e.run(d)
		e.has("a:p<-none:1", "b:q<-none:2")
	})
}

func TestIndexThatHangsIsNamed(t *testing.T) {
	withJoins(t, func(e *joined) {
		var hangs atomic.Bool
		opened := make(chan struct{})
		label := byLabel(&e.odd)
		fromObject := label.FromObject
		label.FromObject = func(p *pod) index.KeySet {
			if hangs.Load() {
				<-opened
			}
			return fromObject(p)
		}
		e.label = derive.Lookup(e.pods.ToTable(), label)
		d := e.make(e.selects)
		e.run(d)
		e.put(&wish{Name: "a", Places: "l"})
		hangs.Store(true)
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "1"}) })
		time.Sleep(21 * time.Second)
		synctest.Wait()
		e.healthy("an index of pods runs since")
		require.Contains(e, d.Explain(e.Context(), "a").Notes, d.Snapshot(e.Context()).Busy)
		close(opened)
		synctest.Wait()
		e.healthy()
		e.has("a:p<-none:1")
	})
}

func TestGoroutinesOfACallShareItsReader(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(func(r *derive.Reader, w *wish) ([]*route, error) {
			e.calls.Add(1)
			var found atomic.Int64
			var all sync.WaitGroup
			for label := range strings.FieldsSeq(w.Places) {
				all.Go(func() {
					for range e.label.List(r, label) {
						found.Add(1)
					}
				})
			}
			all.Wait()
			return []*route{{Place: w.Name, From: fmt.Sprint(found.Load())}}, nil
		})
		e.run(d)
		e.put(&wish{Name: "a", Places: "l0 l1 l2 l3 l4 l5 l6 l7"})
		e.called(1)
		require.Equal(e, 8, d.Figures().Edges)
		for i := range 8 {
			e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{fmt.Sprint(i), fmt.Sprint("l", i), ""}) })
			e.called(1)
			e.has(fmt.Sprint("a<-", i+1))
		}
	})
}

func TestStatusOfTheOutputOutlivesAChangeOfAFurtherInput(t *testing.T) {
	withJoins(t, func(e *joined) {
		e.cfg.Same = func(current, derived *route) bool { return current.From == derived.From }
		e.cfg.Merge = func(current, derived *route) *route {
			merged := *derived
			merged.Status = current.Status
			return &merged
		}
		e.run(e.make(e.selects))
		e.put(&wish{Name: "a", Places: "l"})
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "1"}) })
		e.other(&route{Place: "a:p", From: "none:1", Status: "done"})
		before := e.revision()
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l m", "1"}) })
		require.Equal(e, before, e.revision())
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "2"}) })
		require.Equal(e, &route{Place: "a:p", From: "none:2", Status: "done"}, e.at("a:p"))
	})
}

// The round that has begun writes nothing any more, and Explain goes on.
func TestCloseInTheMiddleOfARound(t *testing.T) {
	withJoins(t, func(e *joined) {
		hang := make(chan struct{})
		d := e.make(func(r *derive.Reader, w *wish) ([]*route, error) {
			if _, _, found := e.label.Get(r, "l"); found {
				<-hang
			}
			return e.selects(r, w)
		})
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "l"})
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "1"}) })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stop()
			d.Close()
		}()
		synctest.Wait()
		require.Contains(e, d.Explain(e.Context(), "a").Notes, "1 change(s) of the inputs are not derived yet")
		close(hang)
		<-ended
		e.has()
		require.Nil(e, d.Last())
		require.Equal(e, "the derivation is stopped, and has not read the row", d.Explain(e.Context(), "pods/p").Why)
		require.ErrorContains(e, d.Run(e.Context()), "has been closed")
	})
}

func TestReaderThatIsUsedLateIsAnErrorOfBothRows(t *testing.T) {
	withJoins(t, func(e *joined) {
		var kept *derive.Reader
		var keptList iter.Seq2[*pod, statedb.Revision]
		d := e.make(func(r *derive.Reader, w *wish) ([]*route, error) {
			switch w.Fail {
			case "keep":
				kept, keptList = r, e.label.List(r, "l")
			case "use":
				for range keptList {
					e.Error("a reader found something after its call")
				}
			}
			return []*route{{Place: w.Name, From: w.Name}}, nil
		})
		e.run(d)
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", ""}) })
		e.put(&wish{Name: "a", Fail: "keep"})
		e.has("a<-a")
		e.put(&wish{Name: "b", Fail: "use"})
		e.has("a<-a")
		e.healthy(`row a of table "wishes": a reader was used after the call`, `row b of table "wishes": a reader was used after the call`)
		e.put(&wish{Name: "a"}, &wish{Name: "b"})
		e.has("a<-a", "b<-b")
		e.healthy()
		_, _, found := e.label.Get(kept, "l")
		require.False(e, found)
		synctest.Wait()
		e.healthy(`row a of table "wishes": a reader was used after the call`)
		e.remove("a")
		e.label.Get(kept, "l")
		synctest.Wait()
		e.healthy()
	})
}

func TestLookUpThatTheDerivationWasNotGivenIsAnError(t *testing.T) {
	withJoins(t, func(e *joined) {
		other := derive.Lookup(e.pods.ToTable(), byPodName)
		e.run(e.make(func(r *derive.Reader, w *wish) ([]*route, error) {
			other.Get(r, "x")
			return nil, nil
		}))
		e.put(&wish{Name: "a"})
		e.healthy("in a further input that the derivation was not given")
	})
	withJoins(t, func(e *joined) {
		e.run(e.made(derive.EachOf(e.cfg, e.wishes, e.routes, e.selects)))
		e.put(&wish{Name: "a"})
		e.healthy("in a further input that the derivation was not given")
	})
}

func TestBadFurtherInputsAreNamed(t *testing.T) {
	withJoins(t, func(e *joined) {
		other := newJoined(e.T)
		first := e.make(e.selects)
		out := derive.Lookup(e.routes.ToTable(), byPlace)
		twice := derive.Lookup(e.pods.ToTable(), byPodName)
		unknown := derive.Lookup(e.pods.ToTable(), statedb.Index[*pod, string]{Name: "odd"})
		var none *derive.Joined[*pod, string]
		_, err := derive.EachOf(e.cfg, e.wishes, e.routes, e.selects,
			e.label, other.zone, out, twice, twice, unknown, none, nil, derive.Lookup[*pod](nil, byPodName))
		for _, text := range []string{
			`further input 1: the look-up in table "pods" by the index "label" belongs to another derivation already`,
			`further input 2: the table "nodes" is not a table of Config.DB`,
			`further input 3: it is the output table "routes"`,
			`further input 5: it is given twice`,
			`further input 6: table "pods" has no index "odd"`,
			`further input 7: it is nil`, `further input 8: it is nil`, `further input 9: the table is nil`,
		} {
			require.ErrorContains(e, err, text)
		}
		_, err = derive.EachOf(e.cfg, other.wishes, e.routes, e.selects)
		require.ErrorContains(e, err, `the input table "wishes" is not a table of Config.DB`)
		last := newTable(e.env, "last", byPlace)
		next, err := derive.Each(derive.Config[*route]{DB: e.db}, e.routes, last, func(r *route) ([]*route, error) { return nil, nil })
		require.NoError(e, err)
		pod := derive.Lookup(last.ToTable(), byPlace)
		nodes := derive.Config[*node]{DB: e.db}
		_, err = derive.EachOf(nodes, e.wishes, e.nodes, func(*derive.Reader, *wish) ([]*node, error) { return nil, nil }, pod)
		require.ErrorContains(e, err, `derive-nodes: table "nodes": it would be derived from itself: nodes from last from routes from nodes`)
		next.Close()
		d, err := derive.EachOf(nodes, e.wishes, e.nodes, func(*derive.Reader, *wish) ([]*node, error) { return nil, nil }, pod)
		require.NoError(e, err)
		d.Close()
		first.Close()
	})
}

func TestOutputIsInitialisedWhenAllInputsAre(t *testing.T) {
	withJoins(t, func(e *joined) {
		wtxn := e.db.WriteTxn(e.wishes, e.pods, e.nodes)
		done := []func(statedb.WriteTxn){
			e.nodes.RegisterInitializer(wtxn, "n"), e.wishes.RegisterInitializer(wtxn, "w"), e.pods.RegisterInitializer(wtxn, "p"),
		}
		wtxn.Commit()
		e.other(&route{Place: "old"})
		d := e.make(e.selects)
		e.run(d)
		e.put(&wish{Name: "a", Places: "l"})
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", ""}) })
		require.Equal(e, []string{"wishes", "pods", "nodes"}, e.routes.PendingInitializers(e.db.ReadTxn()))
		require.Equal(e, []string{"w", "p", "n"}, d.Snapshot(e.Context()).Waiting)
		for _, done := range done {
			require.False(e, e.initialized())
			e.has("old<-")
			e.called(0) // it would miss rows
			require.Equal(e, "the derivation waits until its further inputs are initialised", d.Explain(e.Context(), "a").Why)
			e.commit(func(wtxn statedb.WriteTxn) { done(wtxn) })
		}
		require.True(e, e.initialized())
		e.called(1)
		e.has("a:p<-none:")
	})
}

func TestInputsTableHasARowForEachTable(t *testing.T) {
	withJoins(t, func(e *joined) {
		name := derive.Lookup(e.pods.ToTable(), byPodName)
		self := derive.Lookup(e.wishes.ToTable(), byName)
		d := e.made(derive.EachOf(e.cfg, e.wishes, e.routes, func(r *derive.Reader, w *wish) (out []*route, err error) {
			if _, _, found := self.Get(r, w.Places); found {
				out = append(out, &route{Place: w.Name, From: w.Places})
			}
			return out, nil
		}, e.label, name, self))
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "b"})
		e.has()
		e.put(&wish{Name: "b", Places: "c"})
		e.has("a<-b")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "", ""}) })
		table, err := inputs.Open(e.db, "routes")
		require.NoError(e, err)
		require.Equal(e, []string{"pods", "wishes"}, table.Names(e.db.ReadTxn()))
		for input, revision := range map[string]uint64{"pods": 1, "wishes": 2} {
			row, found := table.Get(e.db.ReadTxn(), input)
			require.True(e, found)
			require.True(e, row.Connected)
			require.Equal(e, revision, row.Input)
			require.Equal(e, e.revision(), row.Output)
		}
		_, message, _ := e.health.Scope("derive-routes").Now()
		require.Equal(e, `OK, deriving table "routes" from table "wishes", "pods"`, message)
		stop()
		row, _ := table.Get(e.db.ReadTxn(), "pods")
		require.False(e, row.Connected)
		d.Close()
		require.Empty(e, table.Names(e.db.ReadTxn()))
	})
}

func TestChangesWhileTheDerivationRestsAreDerivedAfterwards(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "m"})
		move := func(labels ...string) {
			for _, l := range labels {
				e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", l, l}) })
			}
		}
		move("l")
		e.has("a:p<-none:l")
		stop()
		move("n", "m")
		require.Equal(e, 2, d.Figures().Unseen)
		e.calls.Store(0)
		stop = e.run(d)
		e.called(2)
		e.has("b:p<-none:m")
		d.Pause()
		synctest.Wait()
		move("n", "l")
		ex := d.Explain(e.Context(), "pods/p")
		require.Equal(e, []string{"Pending", "the derivation is paused, and has not read the row"}, []string{ex.Status, ex.Why})
		require.Contains(e, d.Explain(e.Context(), "a").Notes, "2 change(s) of the inputs are not derived yet")
		d.Resume()
		synctest.Wait()
		e.has("a:p<-none:l")
		e.called(2)
		stop()
	})
}

// A row that an operator has retried may be gone before its turn comes.
func TestNothingIsRememberedOfARowThatWasRetried(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		stop := e.run(d)
		e.put(&wish{Name: "a", Fail: "error"})
		stop()
		e.acts(1, d.Retry, "a")
		e.remove("a")
		e.run(d)
		require.Zero(e, d.Waiting())
		e.put(&wish{Name: "a"})
		require.Contains(e, d.Explain(e.Context(), "a").Notes, "the function was called last for a change of the row itself")
	})
}

// Each transaction is a round, so the function is called exactly once for each row that has changed, or whose look-ups
// have, by what was looked up before.
func TestTransactionCallsExactlyTheReaders(t *testing.T) {
	for range long.Times(5) {
		seed := cmp.Or(*walkSeed, rand.Uint64())
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			withJoins(t, func(e *joined) {
				random := rand.New(rand.NewPCG(seed, 0))
				e.run(e.make(e.selects))
				wishes, pods, nodes := map[string]*wish{}, map[string]*pod{}, map[string]*node{}
				for range 300 {
					wtxn := e.db.WriteTxn(e.wishes, e.pods, e.nodes)
					wrote, oldPods, oldNodes := map[string]bool{}, maps.Clone(pods), maps.Clone(nodes)
					for range 1 + random.IntN(6) {
						label := []string{"", "l", "m", "l m", "n"}[random.IntN(5)]
						switch random.IntN(4) {
						case 0:
							row := &wish{Name: fmt.Sprint("n", random.IntN(6)), Places: label}
							wrote[row.Name] = change(e, random, wtxn, e.wishes, wishes, row.Name, row)
						case 1:
							row := &node{fmt.Sprint("n", random.IntN(6)), label}
							change(e, random, wtxn, e.nodes, nodes, row.Name, row)
						default:
							row := &pod{fmt.Sprint("p", random.IntN(6)), label, ""}
							change(e, random, wtxn, e.pods, pods, row.Name, row)
						}
					}
					wtxn.Commit()
					synctest.Wait()
					want := 0
					for name, w := range wishes {
						reads := func(p *pod) bool { return p != nil && hasAll(p, strings.Fields(w.Places)[:min(1, len(w.Places))]) }
						again := wrote[name] || nodes[name] != oldNodes[name]
						for i := range 6 {
							pod := fmt.Sprint("p", i)
							again = again || pods[pod] != oldPods[pod] && (reads(pods[pod]) || reads(oldPods[pod]))
						}
						if again {
							want++
						}
					}
					e.called(want)
				}
			})
		})
	}
}

// An old snapshot has old rows of all tables, so an idle derivation does not keep one.
func TestIdleDerivationTakesANewSnapshot(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		e.run(d)
		e.put(&wish{Name: "a"})
		before := d.Last()
		other := newTable(e.env, "other", byPlace)
		wtxn := e.db.WriteTxn(other)
		_, _, err := other.Insert(wtxn, &route{Place: "x"})
		require.NoError(e, err)
		wtxn.Commit()
		e.calls.Store(0)
		require.Same(e, before, d.Last())
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(e, 1, other.NumObjects(d.Last()))
		e.called(0)
	})
}

func TestExplainNamesLookUpsAndDependents(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.make(e.selects)
		e.run(d)
		for i := range 12 {
			e.put(&wish{Name: fmt.Sprintf("w%02d", i), Places: "app=web"})
		}
		e.put(&wish{Name: "db", Places: "app=db"}, &wish{Name: "all"})
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.pods, &pod{"p", "app=web", "1"}, &pod{"q", "app=web", "2"})
			put(e, wtxn, e.nodes, &node{"w00", "z"})
		})
		ex := d.Explain(e.Context(), "w01")
		require.Equal(e, `2 row(s) of table "routes" are derived from it`, ex.Why)
		require.Equal(e, []string{
			`w01:p of table "routes": no other row wants it`, `w01:q of table "routes": no other row wants it`,
			`it has looked up "app=web" in the index "label" of table "pods": 2 row(s) now`,
			`it has looked up "w01" in the index "name" of table "nodes": 0 row(s) now`,
			`the function was called last for a change of pods/q`,
		}, ex.Notes)
		require.Contains(e, d.Explain(e.Context(), "all").Notes, `it has looked up all of table "pods": 2 row(s) now`)
		require.Contains(e, d.Explain(e.Context(), "w00").Notes, `the function was called last for a change of nodes/w00`)
		e.put(&wish{Name: "w01", Places: "app=web"})
		require.Contains(e, d.Explain(e.Context(), "w01").Notes, `the function was called last for a change of the row itself`)
		e.acts(1, d.Refresh, "w01")
		require.Contains(e, d.Explain(e.Context(), "w01").Notes, `the function was called last for a call of Retry or Refresh`)
		require.Contains(e, d.Explain(e.Context(), "w01:p").Notes[0], "the winner is w01")
		e.calls.Store(0)
		e.acts(1, d.Refresh, "pods/p")
		e.called(13)
		e.acts(0, d.Retry, "pods/p")
		_, err := d.Refresh(e.Context(), "pods/x")
		require.ErrorIs(e, err, inspect.ErrNotFound)

		found, err := e.registry.Find("derive-routes")
		require.NoError(e, err)
		ex = found.Explain(e.Context(), "pods/p")
		require.Equal(e, inspect.StateDone, ex.State)
		require.Equal(e, `13 row(s) of table "wishes" depend on it`, ex.Why)
		require.Equal(e, `it depends: all of table "wishes"`, ex.Notes[0])
		require.Equal(e, `it depends: w08 of table "wishes"`, ex.Notes[9])
		require.Equal(e, `and 3 further row(s)`, ex.Notes[10])
		require.Contains(e, ex.String(), "depends")
		require.Equal(e, `1 row(s) of table "wishes" depend on it`, d.Explain(e.Context(), "nodes/w00").Why)
		require.Equal(e, inspect.StateAbsent, d.Explain(e.Context(), "pods/none").State)
	})
}

func TestCommandsAndPageShowAJoin(t *testing.T) {
	withJoins(t, func(e *joined) {
		e.run(e.make(e.selects))
		e.put(&wish{Name: "a", Places: "l"}, &wish{Name: "all"})
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "1"}) })
		engine := &script.Engine{Cmds: commands.New(e.registry)}
		state, err := script.NewState(e.Context(), e.TempDir(), nil)
		require.NoError(e, err)
		page := debug.New(e.registry)
		for _, shown := range []struct {
			command, page string
			want          []string
		}{
			{"reconciler/explain derive-routes a", "explain?reconciler=derive-routes&key=a", []string{
				`it has looked up "l" in the index "label" of table "pods": 1 row(s) now`, "the function was called last for a change of pods/p",
				`a:p of table "routes": no other row wants it`,
			}},
			{"reconciler/explain derive-routes a:p", "explain?reconciler=derive-routes&key=a:p", []string{
				`a:p of table "routes": the winner is a`, `it is a row of table "routes", derived from table "wishes"`,
			}},
			{"reconciler/explain derive-routes pods/p", "explain?reconciler=derive-routes&key=pods/p", []string{
				`2 row(s) of table "wishes" depend on it`, `it depends: a of table "wishes"`, `it depends: all of table "wishes"`,
			}},
			{"reconciler/show derive-routes", "show?reconciler=derive-routes", []string{
				"2 of wishes, 2 of pods, 0 of nodes", "4, of a whole table 1",
			}},
		} {
			require.NoError(e, engine.ExecuteLine(state, shown.command, io.Discard))
			answer := httptest.NewRecorder()
			page.ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/"+shown.page, nil))
			for _, text := range shown.want {
				require.Contains(e, state.Stdout(), text)
				require.Contains(e, html.UnescapeString(answer.Body.String()), text)
			}
		}
	})
}

func TestRankMayDependOnLookUps(t *testing.T) {
	withJoins(t, func(e *joined) {
		d := e.made(derive.BestOf(e.cfg, e.wishes, e.routes,
			func(_ *derive.Reader, w *wish) ([]*route, error) { return routesOf(w) },
			func(r *derive.Reader, w *wish) string {
				n, _, found := e.zone.Get(r, w.Name)
				if !found {
					return "z"
				}
				return n.Zone
			}, e.zone))
		e.run(d)
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "1"})
		e.has("1<-a")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.nodes, &node{"b", "m"}) })
		e.has("1<-b")
		_, err := derive.BestOf[*wish, *route, int](e.cfg, e.wishes, e.routes, nil, nil)
		require.ErrorContains(e, err, "the rank function is nil")
	})
}
