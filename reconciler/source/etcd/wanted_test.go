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

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler/source"
)

// sharing is a store whose keys may decode to any row, and a source of it. A value is "ROW/NUMBER". The
// source is given lists and events without a server.
type sharing struct {
	*testing.T
	source   *Source[*thing]
	rows     func() map[string]string
	revision int64
	keys     map[string]*mvccpb.KeyValue
	// last has the last value of each key that the source has read and that decodes.
	last map[string]*mvccpb.KeyValue
}

func newSharing(t *testing.T) *sharing {
	db, table := newThings(t)
	sink, err := source.New(source.Config[*thing]{Name: "etcd", DB: db, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	h := &sharing{T: t, keys: map[string]*mvccpb.KeyValue{}, last: map[string]*mvccpb.KeyValue{}}
	h.source, err = New(Config[*thing]{
		Client: &clientv3.Client{}, Prefix: "p/", Sink: sink,
		Decode: func(_ string, value []byte) (*thing, error) {
			name, number, ok := strings.Cut(string(value), "/")
			if !ok {
				return nil, errors.New("bad")
			}
			return &thing{Name: name, Value: number}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.rows = func() map[string]string {
		rows := map[string]string{}
		for r := range table.All(db.ReadTxn()) {
			rows[r.Name] = r.Value
		}
		return rows
	}
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
			events = append(events, &mvccpb.Event{Type: mvccpb.DELETE, Kv: kv})
			continue
		}
		h.keys[key] = kv
		events = append(events, &mvccpb.Event{Type: mvccpb.PUT, Kv: kv})
	}
	return events
}

// read notes that the source reads a key.
func (h *sharing) read(kv *mvccpb.KeyValue) {
	if strings.Contains(string(kv.Value), "/") {
		h.last[string(kv.Key[2:])] = kv
	}
}

func (h *sharing) apply(events []*mvccpb.Event) {
	h.Helper()
	for _, ev := range events {
		if ev.Type == mvccpb.DELETE {
			delete(h.last, string(ev.Kv.Key[2:]))
		} else {
			h.read(ev.Kv)
		}
	}
	if err := h.source.apply(h.Context(), news{events: events, at: h.revision}); err != nil {
		h.Fatal(err)
	}
}

func (h *sharing) list() {
	h.Helper()
	l := listing{store: "s", revision: h.revision}
	for _, key := range slices.Sorted(maps.Keys(h.keys)) {
		l.kvs = append(l.kvs, h.keys[key])
		h.read(h.keys[key])
	}
	maps.DeleteFunc(h.last, func(key string, _ *mvccpb.KeyValue) bool { return h.keys[key] == nil })
	if err := h.source.replace(h.Context(), l); err != nil {
		h.Fatal(err)
	}
}

// check compares the rows and the bad keys with what they should be.
func (h *sharing) check() {
	h.Helper()
	winners := map[string]string{} // by row
	rowOf := func(key string) string {
		row, _, _ := strings.Cut(string(h.last[key].Value), "/")
		return row
	}
	for _, key := range slices.Sorted(maps.Keys(h.last)) {
		row := rowOf(key)
		if best, again := winners[row]; !again || h.last[key].ModRevision > h.last[best].ModRevision {
			winners[row] = key
		}
	}
	rows, bad := map[string]string{}, []string{}
	for row, key := range winners {
		_, rows[row], _ = strings.Cut(string(h.last[key].Value), "/")
	}
	for _, key := range slices.Sorted(maps.Keys(h.keys)) {
		if !strings.Contains(string(h.keys[key].Value), "/") {
			bad = append(bad, fmt.Sprintf("%q: bad", "p/"+key))
		} else if winner := winners[rowOf(key)]; winner != key {
			bad = append(bad, fmt.Sprintf("%q: the key %q, which was written later, has the same row", "p/"+key, "p/"+winner))
		}
	}
	if got := h.rows(); !maps.Equal(got, rows) {
		h.Fatalf("the rows are %v, wanted %v", got, rows)
	}
	errs, n := h.source.Bad(1000)
	if got := fmt.Sprint(errs); got != fmt.Sprint(bad) || n != len(bad) {
		h.Fatalf("bad are %d: %v, wanted %v", n, got, bad)
	}
	if at := h.source.State().Input; at != uint64(h.revision) {
		h.Fatalf("the table is at %d, the store at %d", at, h.revision)
	}
}

func TestKeyThatWasWrittenLastHasTheRow(t *testing.T) {
	h := newSharing(t)
	h.write(map[string]string{"a": "x/1"})
	h.write(map[string]string{"b": "x/2"})
	step := func(events []*mvccpb.Event) {
		t.Helper()
		h.apply(events)
		h.check()
		h.list()
		h.check()
	}
	h.list()
	h.check()
	step(h.write(map[string]string{"a": "x/3"}))
	step(h.write(map[string]string{"a": ""})) // The row of b comes back.
	step(h.write(map[string]string{"c": "x/4"}))
	step(h.write(map[string]string{"b": ""})) // The row of c stays.
	step(h.write(map[string]string{"a": "x/5", "b": "x/6"}))
	step(h.write(map[string]string{"a": "y/5"}))
	step(h.write(map[string]string{"b": "bad"}))
	step(h.write(map[string]string{"b": "y/7", "c": ""}))
	step(h.write(map[string]string{"a": "", "b": ""}))
}

func TestRowsOfSharedKeysEqualTheModel(t *testing.T) {
	for range 300 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			h := newSharing(t)
			h.write(map[string]string{"a": "x/1"})
			h.list()
			for range 60 {
				var events []*mvccpb.Event
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
					events = append(events, h.write(values)...)
				}
				if rng.IntN(4) > 0 {
					h.apply(events)
				} else {
					h.list()
					// What a watch has received before is older.
					if err := h.source.apply(t.Context(), news{events: events, at: h.revision}); err != nil {
						t.Fatal(err)
					}
				}
				h.check()
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
