// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/source"
)

// sharing is a store whose keys may decode to any row, and a source of it. A value is "ROW/NUMBER". The
// source is given lists and events without a server.
type sharing struct {
	*testing.T
	db       *statedb.DB
	table    statedb.RWTable[*thing]
	source   *Source[*thing]
	rows     func() map[string]string
	revision int64
	keys     map[string]*mvccpb.KeyValue
	// past has the values that decode which each key has had since it was put first.
	past map[string][]string
	// late are events that the source has not received.
	late []*mvccpb.Event
}

func newSharing(t *testing.T, options ...func(*source.Config[*thing])) *sharing {
	db, table := newThings(t)
	cfg := source.Config[*thing]{Name: "etcd", DB: db, Table: table}
	for _, option := range options {
		option(&cfg)
	}
	sink, err := source.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	h := &sharing{T: t, db: db, table: table, keys: map[string]*mvccpb.KeyValue{}, past: map[string][]string{}}
	h.source, err = New(Config[*thing]{
		Client: &clientv3.Client{}, Prefix: "p/", Sink: sink,
		Decode: decodeShared,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.rows = func() map[string]string { return rowsOf(db, table) }
	return h
}

// write makes one revision of the store, with the values of some keys; an empty value deletes the key. It
// returns the events.
func (h *sharing) write(values map[string]string) (events []*mvccpb.Event) {
	h.revision++
	for _, key := range slices.Sorted(maps.Keys(values)) {
		kv := &mvccpb.KeyValue{Key: []byte("p/" + key), Value: []byte(values[key]), ModRevision: h.revision}
		if len(kv.Value) == 0 {
			delete(h.keys, key)
			delete(h.past, key)
			events = append(events, &mvccpb.Event{Type: mvccpb.DELETE, Kv: kv})
			continue
		}
		kv.CreateRevision = h.revision
		if before := h.keys[key]; before != nil {
			kv.CreateRevision = before.CreateRevision
		}
		if strings.Contains(values[key], "/") {
			h.past[key] = append(h.past[key], values[key])
		}
		h.keys[key] = kv
		events = append(events, &mvccpb.Event{Type: mvccpb.PUT, Kv: kv})
	}
	return events
}

// receive has the source receive events, and what is late.
func (h *sharing) receive(events ...*mvccpb.Event) {
	h.Helper()
	events = append(h.late, events...)
	h.late = nil
	if err := h.source.apply(h.Context(), news{events: events, at: h.revision}); err != nil {
		h.Fatal(err)
	}
}

// begin begins a list, which goes on from the watch if there was one before.
func (h *sharing) begin() *list {
	h.source.following = "s"
	if h.source.revision == 0 {
		h.source.revision = h.revision
	}
	h.source.list = &list{from: h.source.revision, same: h.source.complete, gone: map[string]int64{}}
	return h.source.list
}

// page reads the keys from one up to another, without that.
func (h *sharing) page(l *list, from, to string) {
	for _, key := range slices.Sorted(maps.Keys(h.keys)) {
		if key >= from && key < to {
			l.kvs = append(l.kvs, h.keys[key])
		}
	}
}

func (h *sharing) end(l *list) {
	h.Helper()
	if err := h.source.endList(h.Context()); err != nil || h.source.listErr != nil {
		h.Fatal(err, h.source.listErr)
	}
}

func (h *sharing) list() {
	h.Helper()
	l := h.begin()
	h.page(l, "", "~")
	h.end(l)
}

// check compares the rows and the bad keys with the store, of which the source has received everything.
func (h *sharing) check() {
	h.Helper()
	rows, errs := h.rows(), map[string]string{}
	all, n := h.source.Bad(1000)
	for _, err := range all {
		key, text, _ := strings.Cut(err.Error(), ": ")
		errs[strings.Trim(key, `"`)[len("p/"):]] = text
	}
	if n != len(errs) {
		h.Fatalf("%d bad keys: %v", n, errs)
	}
	owners := map[string]string{} // by row
	for key, kv := range h.keys {
		row, value, decodes := strings.Cut(string(kv.Value), "/")
		text, bad := errs[key]
		delete(errs, key)
		switch {
		case !decodes && text != "bad":
			h.Fatalf("the error of %s is %q", key, text)
		case decodes && !bad:
			if owners[row] != "" || rows[row] != value {
				h.Fatalf("%s is %v; %s and %q have it", row, rows[row], key, owners[row])
			}
			owners[row] = key
		}
	}
	for key, kv := range h.keys {
		row, _, decodes := strings.Cut(string(kv.Value), "/")
		if decodes && owners[row] == "" {
			// Its key has a value that does not decode now.
			for owner, past := range h.past {
				if last := h.keys[owner]; !strings.Contains(string(last.Value), "/") && slices.Contains(past, row+"/"+rows[row]) {
					owners[row] = owner
				}
			}
		}
		if decodes && owners[row] == "" {
			h.Fatalf("the row of %s has no key: %v, %v", key, rows, all)
		}
	}
	if len(errs) > 0 {
		h.Fatalf("bad are %v, which the store does not have", errs)
	}
	for _, err := range all {
		if _, owner, taken := strings.Cut(err.Error(), ": the key \"p/"); taken && h.keys[owner[:1]] == nil {
			h.Fatalf("%s, which the store does not have", err)
		}
	}
	for row, value := range rows {
		has := func(past []string) bool { return slices.Contains(past, row+"/"+value) }
		if owners[row] == "" && !slices.ContainsFunc(slices.Collect(maps.Values(h.past)), has) {
			h.Fatalf("no key wants the row %s=%s", row, value)
		}
	}
	if at := h.source.State().Input; at != uint64(h.revision) {
		h.Fatalf("the table is at %d, the store at %d", at, h.revision)
	}
}

func TestRowIsThatOfTheKeyThatWasCreatedFirst(t *testing.T) {
	h := newSharing(t)
	h.write(map[string]string{"b": "x/1"})
	h.write(map[string]string{"a": "x/2"})
	h.list()
	step := func(rows, bad string, values ...map[string]string) {
		t.Helper()
		for _, v := range values {
			h.receive(h.write(v)...)
		}
		for range 2 {
			errs, _ := h.source.Bad(9)
			if got := fmt.Sprint(h.rows()); got != "map["+rows+"]" || fmt.Sprint(errs) != "["+bad+"]" {
				t.Fatalf("the rows are %s, wanted %s; bad are %v, wanted %s", got, rows, errs, bad)
			}
			h.check()
			h.list()
		}
	}
	const second = ` the key "p/b" has the same row`
	step("x:1", `"p/a":`+second)
	step("x:3", `"p/a":`+second, map[string]string{"b": "x/3"})
	step("x:3", `"p/a":`+second+` "p/c":`+second, map[string]string{"c": "x/4"})
	step("x:2", `"p/c": the key "p/a" has the same row`, map[string]string{"b": ""})
	step("x:4 y:5", "", map[string]string{"a": "y/5"})
	step("x:5 y:4", "", map[string]string{"a": "x/5", "c": "y/4"}) // They change places.
	step("x:5 y:4", `"p/b": the key "p/a" has the same row`, map[string]string{"b": "x/6"})
	step("x:5 y:4", `"p/b": the key "p/a" has the same row "p/a": bad`, map[string]string{"a": "bad"})
	step("x:6 y:4", "", map[string]string{"a": ""})
	step("", "", map[string]string{"b": "", "c": ""})
}

// restarted checks that a source which starts now gives each row to the same key, unless a key keeps a row although
// its value does not decode.
func (h *sharing) restarted() {
	h.Helper()
	fresh := newSharing(h.T)
	fresh.keys, fresh.revision = h.keys, h.revision
	fresh.list()
	for row, key := range h.source.keys.rows {
		if now := fresh.source.keys.rows[row]; now != key && h.source.keys.all[key].decodes {
			h.Fatalf("the row %s is that of %s, after a restart that of %q", row, key, now)
		}
	}
	for row, key := range fresh.source.keys.rows {
		if _, found := h.source.keys.rows[row]; !found {
			h.Fatalf("the row %s has no key, after a restart %s", row, key)
		}
	}
}

func TestRestartChangesNoOwnerOfASharedRow(t *testing.T) {
	h := newSharing(t)
	h.list()
	step := func(rows string, values ...map[string]string) {
		t.Helper()
		for _, v := range values {
			h.receive(h.write(v)...)
		}
		h.check()
		if got := fmt.Sprint(h.rows()); got != "map["+rows+"]" {
			t.Fatalf("the rows are %s, wanted %s", got, rows)
		}
		h.restarted()
	}
	step("x:1", map[string]string{"b": "x/1"}, map[string]string{"a": "x/2"})
	step("x:3", map[string]string{"b": "x/3"}) // It was written last.
	step("x:3 y:4", map[string]string{"c": "y/4"}, map[string]string{"d": "y/5"})
	step("x:6 y:6", map[string]string{"b": "x/6", "a": "y/6"}) // It is older than c and d, and comes to their row.
	step("x:6 y:7", map[string]string{"a": "y/7"})
	step("x:6 y:4", map[string]string{"a": ""})
	step("x:6 y:4", map[string]string{"a": "y/8"}) // It is the youngest now.
	step("x:6 y:5", map[string]string{"c": ""})
	step("x:6 y:5 z:9", map[string]string{"f": "z/10", "e": "z/9"}) // They are of one transaction.

	// A key that is younger comes beside the first list.
	h = newSharing(t)
	written := h.write(map[string]string{"b": "x/1"})
	l := h.begin()
	h.page(l, "", "~")
	h.receive(append(written, h.write(map[string]string{"a": "x/2"})...)[1:]...)
	h.end(l)
	step("x:1")
}

func TestRowsOfSharedKeysEqualTheStore(t *testing.T) {
	for range 300 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			h := newSharing(t)
			h.write(map[string]string{"a": "x/1"})
			h.list()
			write := func() {
				for range 1 + rng.IntN(4) {
					values := map[string]string{}
					for range 1 + rng.IntN(3) {
						key := string("abcdef"[rng.IntN(6)])
						switch rng.IntN(6) {
						case 0:
							if h.keys[key] != nil {
								values[key] = ""
							}
						case 1:
							values[key] = "bad"
						default:
							values[key] = fmt.Sprintf("%c/%d", "xyz"[rng.IntN(3)], rng.IntN(1000))
						}
					}
					h.late = append(h.late, h.write(values)...)
				}
				if rng.IntN(2) == 0 {
					h.receive()
				}
			}
			for range 60 {
				write()
				if rng.IntN(3) == 0 {
					// Each page is of another revision, and the watch is behind it, or not.
					l := h.begin()
					for _, to := range []string{"c", "e", "~"} {
						h.page(l, map[string]string{"c": "", "e": "c", "~": "e"}[to], to)
						write()
					}
					h.end(l)
				}
				h.receive()
				h.check()
				if rng.IntN(10) == 0 {
					h.restarted()
				}
			}
		})
	}
}

func TestObjectWithoutAKeyIsABadKey(t *testing.T) {
	h := newSharing(t)
	h.source.cfg.Decode = func(key string, _ []byte) (*thing, error) {
		if key == "a" {
			return nil, nil
		}
		return &thing{Name: key}, nil
	}
	h.write(map[string]string{"a": "1", "b": "2"})
	h.list()
	if errs, n := h.source.Bad(9); n != 1 || !strings.HasPrefix(errs[0].Error(), `"p/a": panic in the primary index`) {
		t.Errorf("%d bad keys: %v", n, errs)
	}
	if got := h.rows(); len(got) != 1 || h.source.State().Input != 1 {
		t.Errorf("the rows are %v: %+v", got, h.source.State())
	}
}

// healthText is a health that keeps the last report.
type healthText struct {
	cell.Health
	last string
}

func (h *healthText) OK(status string)                  { h.last = "OK: " + status }
func (h *healthText) Degraded(reason string, err error) { h.last = fmt.Sprintf("%s: %v", reason, err) }

func TestListThatFailsEndsNoWatch(t *testing.T) {
	h, health := newSharing(t), &healthText{}
	h.source.cfg.Health = health
	h.write(map[string]string{"a": "x/1"})
	h.list()
	h.source.relist = ""
	h.begin().err = errors.New("too slow")
	if err := h.source.endList(t.Context()); err != nil || health.last != "the last list failed: too slow" {
		t.Fatal(err, health.last)
	}
	h.receive(h.write(map[string]string{"b": "y/2"})...)
	h.check()
	h.list()
	if h.check(); health.last != "OK: no bad keys" {
		t.Error(health.last)
	}
}

func TestDecodeThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, health, hang := newSharing(t), &healthText{}, make(chan struct{})
		h.source.cfg.Health = health
		h.source.cfg.Decode = func(key string, value []byte) (*thing, error) { <-hang; return &thing{Name: key}, nil }
		events := h.write(map[string]string{"a": "x/1"})
		began, ctx := time.Now(), t.Context()
		go h.source.keepReporting(ctx)
		go func() { _ = h.source.apply(ctx, news{events: events, at: h.revision}) }()
		time.Sleep(guard.LongAfter + 1)
		synctest.Wait()
		said := "Decode of p/a runs since " + text.Stamp(began)
		if got := h.source.State().Running; got != said || health.last != said+": <nil>" {
			t.Errorf("State says %q, health %q, wanted %q", got, health.last, said)
		}
		close(hang)
		time.Sleep(guard.LongAfter)
		synctest.Wait()
		if got := h.source.State().Running; got != "" || health.last != "OK: no bad keys" {
			t.Errorf("State says %q, health %q", got, health.last)
		}
	})
}
