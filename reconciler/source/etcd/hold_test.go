// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler/source"
)

// following is a source that follows a fakeServer, in a bubble with fake time.
type following struct {
	*testing.T
	*fakeServer
	db     *statedb.DB
	table  statedb.RWTable[*thing]
	source *Source[*thing]
	stop   func()
	// endedWith waits until Run ends by itself.
	endedWith func() error
}

func follow(t *testing.T, delay func() time.Duration, change func(*Config[*thing], *source.Config[*thing])) *following {
	f := &following{T: t, fakeServer: newFakeServer(delay)}
	f.db, f.table = newThings(t)
	to := source.Config[*thing]{Name: "etcd", DB: f.db, Table: f.table}
	cfg := Config[*thing]{
		Client: &clientv3.Client{}, Prefix: fakePrefix, Identity: fakeIdentity, Check: 30 * time.Second, Relist: 24 * time.Hour,
		Decode: decodeShared,
	}
	change(&cfg, &to)
	sink, err := source.New(to)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Sink = sink
	if f.source, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	f.source.server = f.fakeServer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.source.Run(ctx) }()
	f.endedWith = func() error { defer cancel(); return <-ended }
	f.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		sink.Close()
	}
	return f
}

// atOnce is the delay of a server that answers at once.
func atOnce() time.Duration { return 0 }

// decodeShared decodes "ROW/NUMBER".
func decodeShared(_ string, value []byte) (*thing, error) {
	name, number, ok := strings.Cut(string(value), "/")
	if !ok {
		return nil, errors.New("bad")
	}
	return &thing{Name: name, Value: number}, nil
}

// put puts keys, each with a row of its name.
func (f *following) put(value int, keys ...string) {
	values := map[string]string{}
	for _, key := range keys {
		values[key] = fmt.Sprintf("%s/%d", key, value)
	}
	f.write(values)
}

// wait lets time pass, and what happens at its end end.
func (f *following) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *following) rows() map[string]string { return rowsOf(f.db, f.table) }

func rowsOf(db *statedb.DB, table statedb.RWTable[*thing]) map[string]string {
	rows := map[string]string{}
	for r := range table.All(db.ReadTxn()) {
		rows[r.Name] = r.Value
	}
	return rows
}

// has fails the test unless the table has these rows, and the source holds so many.
func (f *following) has(when, rows string, held int) {
	f.Helper()
	if got := fmt.Sprint(f.rows()); got != "map["+rows+"]" || f.source.Holding() != held {
		f.Fatalf("%s: the rows are %s, wanted %s; %d are held, wanted %d", when, got, rows, f.source.Holding(), held)
	}
}

const check = 30 * time.Second

// However the lists fall, a store that is being filled has no rows removed: the list may find it empty, or filled by
// half, it may be one by time, or one of a new connection after a compaction.
func TestHoldEndsOnlyInAQuietStore(t *testing.T) {
	for _, c := range []struct {
		name       string
		allowEmpty bool
		relist     time.Duration
		first      []string // what the store has when it is listed first
		disturb    func(f *following)
	}{
		{"nothing else", false, 24 * time.Hour, nil, func(*following) {}},
		{"lists by time", false, time.Minute, nil, func(*following) {}},
		{"a list at each comparison", false, time.Second, nil, func(*following) {}},
		{"new connections", false, 24 * time.Hour, nil, func(f *following) { f.cut() }},
		{"new connections after a compaction", false, 24 * time.Hour, nil, func(f *following) { f.cut(); f.put(1, "z"); f.compact() }},
		{"the first key is there", false, 24 * time.Hour, []string{"a"}, func(*following) {}},
		{"the first key is there, and lists by time", false, time.Minute, []string{"a"}, func(*following) {}},
		{"an empty store is believed", true, time.Minute, nil, func(*following) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follow(t, atOnce, func(cfg *Config[*thing], to *source.Config[*thing]) {
					cfg.Relist, to.AllowEmpty = c.relist, c.allowEmpty
				})
				defer f.stop()
				f.put(1, "a", "b", "c", "d")
				f.wait(time.Minute)
				f.has("at first", "a:1 b:1 c:1 d:1", 0)
				f.replace()
				if c.first != nil {
					f.put(1, c.first...)
				}
				f.wait(20 * time.Second)
				f.has("replaced", "a:1 b:1 c:1 d:1", 4-len(c.first))
				for i := range 20 {
					f.put(1, "z")
					f.wait(10 * time.Second)
					c.disturb(f)
					f.wait(10 * time.Second)
					if f.has(fmt.Sprint("put ", i), "a:1 b:1 c:1 d:1 z:1", 4-len(c.first)); f.source.Store() != "" {
						t.Fatalf("put %d: the revision is said to be of %q", i, f.source.Store())
					}
				}
				f.put(2, "a", "b", "z")
				f.wait(9 * time.Second)
				f.has("filled", "a:2 b:2 c:1 d:1 z:2", 2)
				f.wait(2 * check)
				f.has("quiet", "a:2 b:2 z:2", 0)
				if identity, _ := f.now(); f.source.Store() != identity || len(f.bad()) > 0 {
					t.Errorf("the store is %q, bad are %v", f.source.Store(), f.bad())
				}
			})
		})
	}
}

func (f *following) bad() []error {
	errs, _ := f.source.Bad(1000)
	return errs
}

func TestEmptyStoreIsHeldUnlessItIsAllowed(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := follow(t, atOnce, func(cfg *Config[*thing], to *source.Config[*thing]) { cfg.Relist, to.AllowEmpty = time.Minute, allowed })
			defer f.stop()
			f.put(1, "a", "b")
			f.wait(time.Minute)
			f.replace()
			f.write(map[string]string{"a": "bad"})
			f.wait(20 * time.Second)
			f.has("replaced", "a:1 b:1", 2)
			f.wait(time.Hour)
			if allowed {
				f.has("an hour later", "", 0)
			} else {
				f.has("an hour later", "a:1 b:1", 2)
			}
			f.put(2, "b")
			f.wait(3 * check)
			if allowed {
				f.has("filled", "b:2", 0)
			} else {
				// The value of a does not decode, and the row before it stays.
				f.has("filled", "a:1 b:2", 0)
			}
		})
	}
}

// A store in which no key decodes counts as empty, but not before it is quiet: it may be filled yet.
func TestHoldOutlastsAStoreInWhichNoKeyDecodesYet(t *testing.T) {
	for _, c := range []struct {
		first []string          // what the store has when it is listed first
		then  map[string]string // what is written again and again
		rows  string
		held  int
	}{
		{nil, map[string]string{"a": "bad", "b": "bad"}, "a:1 b:1", 2},
		{[]string{"b"}, map[string]string{"a": "bad", "b": ""}, "a:1", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := follow(t, atOnce, func(_ *Config[*thing], to *source.Config[*thing]) { to.AllowEmpty = true })
			defer f.stop()
			f.put(1, "a", "b")
			f.wait(time.Minute)
			f.replace()
			f.put(1, c.first...)
			f.wait(10 * time.Second)
			for range 10 {
				f.write(c.then)
				f.wait(9 * time.Second)
				f.has("not quiet", c.rows, c.held)
			}
			f.wait(2 * check)
			f.has("quiet", "", 0)
		})
	}
}

// The rows are back: nothing is removed, whatever else changes.
func TestHoldEndsWhenNothingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, atOnce, func(*Config[*thing], *source.Config[*thing]) {})
		defer f.stop()
		f.put(1, "a", "b")
		f.wait(time.Minute)
		f.replace()
		f.wait(20 * time.Second)
		f.put(2, "a", "b")
		for range 4 {
			f.wait(check / 2)
			f.put(3, "z")
		}
		f.wait(0)
		if identity, _ := f.now(); f.source.Store() != identity {
			t.Errorf("the revision is said to be of %q", f.source.Store())
		}
	})
}

// The row came beside the first list, and its only key turned bad before the list was read.
func TestRowOfAKeyThatTurnedBadBesideTheFirstListStays(t *testing.T) {
	for _, allowEmpty := range []bool{false, true} {
		h := newSharing(t, func(c *source.Config[*thing]) { c.AllowEmpty = allowEmpty })
		l := h.begin()
		h.receive(h.write(map[string]string{"a": "x/1"})...)
		h.receive(h.write(map[string]string{"a": "bad"})...)
		h.page(l, "", "~")
		h.end(l)
		if ready, _ := h.table.Initialized(h.db.ReadTxn()); !ready || h.source.Holding() != 0 {
			t.Errorf("the table is initialised: %t, %d rows are held", ready, h.source.Holding())
		}
		if len(h.rows()) != 1 {
			t.Errorf("the rows are %v", h.rows())
		}
		h.receive(h.write(map[string]string{"a": ""})...)
		if len(h.rows()) != 0 {
			t.Errorf("the rows are %v", h.rows())
		}
	}
}

// The sink holds deletions above its bound, of events and of lists. Meanwhile the store is followed.
func TestDeletionsAboveTheBoundAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, atOnce, func(cfg *Config[*thing], to *source.Config[*thing]) {
			to.MaxDeletions.Rows, cfg.Relist = 2, 10*time.Minute
		})
		defer f.stop()
		f.put(1, "a", "b", "c", "d")
		f.wait(time.Second)
		before := f.source.State().Input
		f.write(map[string]string{"a": "", "b": "", "c": ""})
		f.wait(time.Second)
		f.put(2, "d")
		f.wait(time.Second)
		is := func(when string, input uint64, held int, rows string) {
			t.Helper()
			state := f.source.State()
			if !state.Connected || state.Input != input || state.Held != held || fmt.Sprint(f.rows()) != "map["+rows+"]" {
				t.Errorf("%s: %+v, rows %v", when, state, f.rows())
			}
		}
		is("after the events", before, 3, "a:1 b:1 c:1 d:2")
		set := f.source.cfg.Sink.Snapshot().Held.Set
		f.wait(30 * time.Minute)
		is("after lists", before, 3, "a:1 b:1 c:1 d:2")
		if again := f.source.cfg.Sink.Snapshot().Held.Set; again != set {
			t.Errorf("the set was %s, and is %s", set, again)
		}
		f.put(3, "c")
		f.wait(time.Second)
		is("when a key is back", before, 2, "a:1 b:1 c:3 d:2")
		if _, err := f.source.cfg.Sink.Approve(t.Context(), f.source.cfg.Sink.Snapshot().Held.Set); err != nil {
			t.Error(err)
		}
		is("after the approval", uint64(f.revision), 0, "c:3 d:2")
		f.put(4, "e", "f")
		f.wait(time.Second)
		f.write(map[string]string{"c": "", "d": "", "e": "", "f": ""})
		f.wait(30 * time.Minute)
		is("when the prefix is empty", uint64(f.revision)-1, 4, "c:3 d:2 e:4 f:4")
	})
}
