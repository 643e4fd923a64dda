// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type thing struct{ Name, Value string }

// other is a row that carries its status.
type other struct {
	Name   string
	Status reconciler.Status
}

func newOthers(t *testing.T, db *statedb.DB) statedb.RWTable[*other] {
	t.Helper()
	table, err := statedb.NewTableAny(db, "others", nil, nil, statedb.Index[*other, string]{
		Name: "name", Unique: true, FromKey: index.String,
		FromObject: func(r *other) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newThings(t *testing.T) (*statedb.DB, statedb.RWTable[*thing]) {
	t.Helper()
	db := statedb.New()
	table, err := statedb.NewTableAny(db, "things", nil, nil, statedb.Index[*thing, string]{
		Name: "name", Unique: true,
		FromObject: func(r *thing) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, table
}

// newThing returns a source that never connects.
func newThing(t *testing.T) (*statedb.DB, *Source[*thing]) {
	t.Helper()
	db, table := newThings(t)
	sink, err := source.New(source.Config[*thing]{Name: "etcd", DB: db, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	s, err := New(Config[*thing]{
		Client: &clientv3.Client{}, Prefix: "things/", Sink: sink,
		Decode: func(string, []byte) (*thing, error) { return nil, errors.New("no") },
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// names fails the test unless the error has a line for each text, and no other.
func names(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q:\n%s", text, err)
		}
	}
	if len(lines) != len(texts) {
		t.Errorf("%d errors, wanted %d:\n%s", len(lines), len(texts), err)
	}
}

func TestBadConfigurationIsNamedWholly(t *testing.T) {
	_, err := New(Config[*thing]{Check: -time.Second, Relist: -1, Backoff: -2, PageSize: -3})
	names(t, err, "Config.Client is nil", "Config.Prefix is empty", "Config.Decode is nil", "Config.Sink is nil",
		"Config.Check is -1s, must not be negative", "Config.Relist is -1ns", "Config.Backoff is -2ns", "Config.PageSize is -3")

	_, err = New(Config[*thing]{Prefix: "statekeel/"})
	names(t, err, "Config.Client", "Config.Decode", "Config.Sink",
		`Config.Identity is "statekeel/identity", must not begin with Config.Prefix "statekeel/"`)
}

func TestBadAcksAreNamedWholly(t *testing.T) {
	names(t, Acks{Name: "a/b", TTL: -time.Second}.Run(t.Context()), `Acks.Name is "a/b"`, "Acks.TTL is -1s",
		"Acks.Loop is nil", "Acks.Source is nil", "Acks.DB is nil")

	db, s := newThing(t)
	newOthers(t, db)
	names(t, Acks{Source: s, DB: db, Loop: loopOf("nothing"), Prefix: "things/"}.Run(t.Context()),
		`Acks.Name is ""`, `Acks.Loop is of the table "nothing", which Acks.DB does not have`,
		`"things/acks/" begins with the prefix of the source, "things/"`, `"things/alive/" begins with the prefix`)
	s.cfg.Identity = "x/acks/a"
	names(t, Acks{Name: "a", Source: s, DB: db, Prefix: "x/"}.Run(t.Context()),
		"Acks.Loop", `Acks.Prefix is "x/", so "x/acks/a" is the key of the identity`)
}

// An ack of another way would say applied before the rest has followed.
func TestWayFromTheSourceIsFoundOrSaidToBeMissing(t *testing.T) {
	db, _ := newThing(t)
	newOthers(t, db)
	others, err := inputs.Open(db, "others")
	if err != nil {
		t.Fatal(err)
	}
	way := inputs.Path{DB: db, First: "things/etcd", Last: "others"}
	for _, c := range []struct{ input, want string }{
		{"", "the table others has no input yet"},
		{"file", `the table others is filled by "file", and not from things/etcd`},
		{"things", `the table others is filled by "file", and not from things/etcd`},
	} {
		wtxn := db.WriteTxn(others.Meta())
		if c.input != "" {
			others.Publish(wtxn, c.input, 1, 1)
		}
		wtxn.Commit()
		if _, err := way.Look(); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	way.Last = "things"
	if _, err := way.Look(); err != nil {
		t.Error(err)
	}
}

// One source fills two tables that are joined, with a third one that is written by hand.
func TestWayThroughAJoinWaitsForEachInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, things := newThings(t)
		byName := statedb.Index[*other, string]{
			Name: "name", Unique: true, FromKey: index.String,
			FromObject: func(r *other) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
		}
		var tables []statedb.RWTable[*other]
		for _, name := range []string{"left", "right", "hand", "joined"} {
			table, err := statedb.NewTableAny(db, name, nil, nil, byName)
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, table)
		}
		left, right, hand, joined := tables[0], tables[1], tables[2], tables[3]
		broken := false
		var runs []func(ctx context.Context) error
		made := func(run func(ctx context.Context) error, end func(), err error) {
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(end)
			runs = append(runs, run)
		}
		var ofRight *derive.Derived[*thing, *other]
		for _, out := range []statedb.RWTable[*other]{left, right} {
			d, err := derive.Each(derive.Config[*other]{DB: db}, things, out, func(r *thing) ([]*other, error) {
				if broken {
					return nil, errors.New("broken")
				}
				return []*other{{Name: r.Name}}, nil
			})
			made(d.Run, d.Close, err)
			ofRight = d
		}
		more, byHand := derive.Lookup(right.ToTable(), byName), derive.Lookup(hand.ToTable(), byName)
		d, err := derive.EachOf(derive.Config[*other]{DB: db}, left, joined, func(r *derive.Reader, row *other) ([]*other, error) {
			_, _, _ = byHand.Get(r, row.Name)
			_, _, found := more.Get(r, row.Name)
			if !found {
				return nil, nil
			}
			return []*other{{Name: row.Name}}, nil
		}, more, byHand)
		made(d.Run, d.Close, err)

		source, err := inputs.Open(db, "things")
		if err != nil {
			t.Fatal(err)
		}
		at := uint64(0)
		write := func(name string) {
			at++
			wtxn := db.WriteTxn(things, source.Meta())
			_, _, _ = things.Insert(wtxn, &thing{Name: name})
			source.Publish(wtxn, "etcd", at, things.Revision(wtxn))
			wtxn.Commit()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		way := inputs.Path{DB: db, First: "things/etcd", Last: "joined"}
		next := func() uint64 {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return way.Next(ctx).Revision
		}
		write("a")
		for i, run := range []func(context.Context) error{runs[2], runs[0], runs[1]} {
			if got := next(); got != 0 {
				t.Errorf("with %d derivations, the joined table includes revision %d", i, got)
			}
			go func() { _ = run(ctx) }()
		}
		if got := next(); got != at || joined.NumObjects(db.ReadTxn()) != 1 {
			t.Errorf("the joined table includes revision %d, and not %d", got, at)
		}
		ofRight.Pause()
		write("b")
		if got := next(); got != 0 {
			t.Errorf("the joined table includes revision %d, and one of its inputs does not", got)
		}
		ofRight.Resume()
		if got := next(); got != at || joined.NumObjects(db.ReadTxn()) != 2 {
			t.Errorf("the joined table includes revision %d, and not %d", got, at)
		}
		broken = true
		write("c")
		if now, err := way.Look(); err != nil || now.N != 2 || next() != at {
			t.Errorf("%d rejected objects, %v", now.N, err)
		}
		cancel()
		synctest.Wait()
	})
}

// loopOf is a loop that tells the name of its table, and no more.
func loopOf(table string) inspect.Inspector { return &fakeLoop{id: inspect.ID{Table: table}} }

type fakeLoop struct {
	inspect.Inspector
	id   inspect.ID
	page inspect.ObjectPage
	err  error
}

func (l *fakeLoop) ID() inspect.ID { return l.id }

func (l *fakeLoop) Objects(context.Context, inspect.ObjectQuery) (inspect.ObjectPage, error) {
	return l.page, l.err
}

func TestPruneHasEndedOnlyIfNoDeletionCanBeLeft(t *testing.T) {
	for _, c := range []struct {
		loop fakeLoop
		want string
	}{
		{fakeLoop{page: inspect.ObjectPage{Objects: make([]inspect.ObjectLine, 1)}}, "deletions after the first prune are not carried out"},
		{fakeLoop{page: inspect.ObjectPage{Next: "7"}}, "deletions after the first prune may not be carried out"},
		{fakeLoop{err: errors.New("busy")}, "deletions after the first prune may not be carried out"},
		{fakeLoop{}, ""},
	} {
		var r reporter
		r.Loop = &c.loop
		got := r.lookForPrune(t.Context(), &metrics.Figures{Prunes: metrics.Histogram{Count: 1}})
		if got != c.want || r.pruned != (c.want == "") {
			t.Errorf("it is %q, pruned %t, must be %q", got, r.pruned, c.want)
		}
	}
}

// Waits ignore such rows, so an ack would say that they are applied.
func TestRowsWithoutAStatusAreCountedAsRejected(t *testing.T) {
	db := reconcilertest.NewDB(t)
	table := newOthers(t, db)
	loop, err := reconciler.New(reconciler.Config[*other]{
		DB: db, Table: table, Operations: reconcilertest.NewTarget(func(o *other) string { return o.Name }, nil),
		Clone:     func(o *other) *other { c := *o; return &c },
		GetStatus: func(o *other) reconciler.Status { return o.Status },
		SetStatus: func(o *other, s reconciler.Status) *other { o.Status = s; return o },
	})
	if err != nil {
		t.Fatal(err)
	}
	reconcilertest.Go(t, loop.Run)
	for _, c := range []struct {
		status reconciler.Status
		want   int
	}{{reconciler.StatusPending(), 0}, {reconciler.Status{}, 1}, {reconciler.StatusPending(), 0}} {
		wtxn := db.WriteTxn(table)
		if _, _, err := table.Insert(wtxn, &other{"a", c.status}); err != nil {
			t.Fatal(err)
		}
		wtxn.Commit()
		if _, err := loop.WaitAll(t.Context(), reconciler.Applied); err != nil {
			t.Fatal(err)
		}
		got := unsetRows(t.Context(), loop)
		if got.N != c.want || len(got.Errs) != c.want || c.want > 0 && !strings.HasPrefix(got.Errs[0].Error(), "a: ") {
			t.Errorf("%v: %+v", c.status, got)
		}
	}
}

func TestBadKeysAreListedInOrderUpToTheLimit(t *testing.T) {
	_, s := newThing(t)
	for i := range 30 {
		s.publish(map[string]error{fmt.Sprint((i*7 + 10) % 40): errors.New("no")}, 0)
	}
	all, n := s.Bad(1000)
	if n != 30 || len(all) != 30 {
		t.Fatalf("%d of %d errors", len(all), n)
	}
	for limit := range 31 {
		some, n := s.Bad(limit)
		if n != 30 || fmt.Sprint(some) != fmt.Sprint(all[:limit]) {
			t.Errorf("the first %d are %v", limit, some)
		}
	}
	if got := all[0].Error(); got != `"things/10": no` {
		t.Errorf("the first is %s", got)
	}
}

func TestAckIsJSONThatReadsBack(t *testing.T) {
	a := Ack{Store: "s", Revision: 7, AppliedRevision: 6, Failing: 1, Blocked: 2, Paused: 3, Bad: 4, Held: 5, Unpruned: true, Problems: []string{"x: no"}}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"store":"s","revision":7,"applied":6,"failing":1,"blocked":2,"paused":3,"bad":4,"held":5,"unpruned":true,"problems":["x: no"]}`
	if string(text) != want {
		t.Errorf("the JSON is %s", text)
	}
	var back Ack
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, a) {
		t.Errorf("it reads back as %+v, %v", back, err)
	}
}

func TestAppliedNeedsTheRevisionAndNothingWrong(t *testing.T) {
	if ack := (Ack{Revision: 9, AppliedRevision: 7}); !ack.Applied(7) || ack.Applied(8) {
		t.Errorf("%+v", ack)
	}
	for _, ack := range []Ack{{Bad: 1}, {Held: 1}, {Unpruned: true}} {
		ack.AppliedRevision = 7
		if ack.Applied(7) || reflect.DeepEqual(ack, Ack{AppliedRevision: 7}) {
			t.Errorf("%+v is applied", ack)
		}
	}
	for _, ack := range []Ack{{Failing: 1}, {Blocked: 1}, {Paused: 1}} {
		if ack.AppliedRevision = 7; !ack.Applied(7) || reflect.DeepEqual(ack, Ack{AppliedRevision: 7}) {
			t.Errorf("%+v: what fails or waits is not in AppliedRevision", ack)
		}
	}
}
