// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

type (
	operation func(ctx context.Context, e *entry) error
	sub       = reconcilertest.Subject[*entry, *store]
)

// parts are operations of which some differ from healthy.
type parts struct {
	healthy
	update, delete operation
	prune          func(ctx context.Context, objects iter.Seq2[*entry, statedb.Revision]) error
}

func (p *parts) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if p.update != nil {
		return p.update(ctx, e)
	}
	return p.healthy.Update(ctx, txn, revision, e)
}

func (p *parts) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	if p.delete != nil {
		return p.delete(ctx, e)
	}
	return p.healthy.Delete(ctx, txn, revision, e)
}

func (p *parts) Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[*entry, statedb.Revision]) error {
	if p.prune != nil {
		return p.prune(ctx, objects)
	}
	return p.healthy.Prune(ctx, txn, objects)
}

// has reports whether the target has the name.
func (s *store) has(name string) bool { _, ok := s.dump()[name]; return ok }

// list parses states: rows are separated by spaces, a row is a key and values, as in "a=1,2 b".
func list(states ...string) func(*rand.Rand) [][]*entry {
	return func(*rand.Rand) (all [][]*entry) {
		for _, state := range states {
			rows := []*entry{}
			for _, row := range strings.Fields(state) {
				key, values, found := strings.Cut(row, "=")
				e := &entry{Key: key}
				if found {
					e.Values = strings.Split(values, ",")
				}
				rows = append(rows, e)
			}
			all = append(all, rows)
		}
		return all
	}
}

// with returns a subject whose operations the function changes at each start of the program.
func with(change func(p *parts), states ...string) sub {
	s := subject(func(s *store) reconciler.Operations[*entry] {
		p := &parts{healthy: healthy{s}}
		change(p)
		return p
	})
	if len(states) > 0 {
		s.States = list(states...)
	}
	s.Runs = 300
	return s
}

// but leaves out faults that the target cannot have.
func but(s sub, without ...string) sub { s.Without = without; return s }

// created names a new object of a key: key#n.
func (s *store) created(ctx context.Context, key string) (name string, err error) {
	s.mu.Lock()
	s.made++
	name = fmt.Sprintf("%s#%d", key, s.made)
	s.mu.Unlock()
	return name, s.set(ctx, name, key)
}

// objects returns the names of the objects of a key.
func (s *store) objects(key string) (names []string) {
	for name := range s.dump() {
		if strings.HasPrefix(name, key+"#") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *store) removeObjects(ctx context.Context, key string) error {
	for _, name := range s.objects(key)[:min(1, len(s.objects(key)))] {
		if err := s.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// counted makes the dump the number of objects of each key, because their names differ between equal targets.
func counted(s sub) sub {
	s.Dump = func(s *store) map[string]string {
		numbers, dump := map[string]int{}, map[string]string{}
		for name, value := range s.dump() {
			key, _, numbered := strings.Cut(name, "#")
			if !numbered {
				dump[name] = value
				continue
			}
			numbers[key]++
			dump[key+"#"] = fmt.Sprint(numbers[key])
		}
		return dump
	}
	return s
}

// byKey prunes all whose key is not wanted.
func byKey(p *parts) func(context.Context, iter.Seq2[*entry, statedb.Revision]) error {
	return func(ctx context.Context, objects iter.Seq2[*entry, statedb.Revision]) error {
		wanted := map[string]bool{}
		for e := range objects {
			wanted[e.Key] = true
		}
		for name := range p.dump() {
			if key := strings.FieldsFunc(name, func(r rune) bool { return r == '#' || r == '/' })[0]; !wanted[key] {
				if err := p.remove(ctx, name); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// nothing prunes nothing.
func nothing(context.Context, iter.Seq2[*entry, statedb.Revision]) error { return nil }

// keysOnly prunes the objects whose key is in the target, and does not see parts of others.
func keysOnly(p *parts) func(context.Context, iter.Seq2[*entry, statedb.Revision]) error {
	return func(ctx context.Context, objects iter.Seq2[*entry, statedb.Revision]) error {
		wanted := map[string]bool{}
		for e := range objects {
			wanted[e.Key] = true
		}
		for name := range p.dump() {
			if key, _, part := strings.Cut(strings.ReplaceAll(name, "#", "/"), "/"); !part && !wanted[key] {
				if err := p.Delete(ctx, nil, 0, &entry{Key: key}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

const (
	misbehaves = "an operation misbehaves"
	others     = "the others do not converge"
	converge   = "the rows do not converge"
	fresh      = "the target is not as a fresh start on the same rows leaves it"
	foreign    = "what is foreign was changed"
	another    = "another refresh changes the target"
	leaves     = "the deletion of all rows leaves something, or takes too much"
	unequal    = "a resync or a new start finds work in a settled target"
	absent     = "the deletion of what is absent changes the target"
)

// bugs are subjects with one mistake each. source is the report of the mistake in internal/tests/upstream/README.md, or the
// mistake if no report of it was found.
var bugs = []struct {
	source string
	sub    sub
	check  string // that finds it
	says   string // the report
	only   string // a check or kind of fault without which it is not found, or not by the check
}{
	{"antrea#3827", with(func(p *parts) {
		p.delete = func(ctx context.Context, e *entry) error {
			if !p.has(e.Key) {
				return errors.New("no such process")
			}
			return p.healthy.Delete(ctx, nil, 0, e)
		}
	}, "a b", "b"), misbehaves, "which the target does not have, fails: no such process", misbehaves},
	{"calico#13274", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			if have := p.dump(); len(e.Key) > 2 && have[e.Key[:2]] != "" {
				return nil // the wider one covers it
			}
			return p.set(ctx, e.Key, "member")
		}
	}, "10 10.1", "10.1"), fresh, "lacks 10.1: member", fresh},
	{"cilium#44730, talos#7592", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error { return p.set(ctx, strings.ToLower(e.Key), "") }
		p.delete = func(ctx context.Context, e *entry) error { return p.remove(ctx, strings.ToLower(e.Key)) }
		p.prune = nothing
	}, "a A", "A"), fresh, "lacks a", ""},
	{"cilium#25067", with(func(p *parts) {
		last := map[string][]string{}
		p.update = func(ctx context.Context, e *entry) error {
			for _, v := range e.Values {
				if err := p.set(ctx, e.Key+"/"+v, ""); err != nil {
					return err
				}
			}
			for i, v := range last[e.Key] {
				if i >= len(e.Values) || e.Values[i] != v {
					if err := p.remove(ctx, e.Key+"/"+v); err != nil {
						return err
					}
				}
			}
			last[e.Key] = e.Values
			return nil
		}
		p.prune = nothing
	}, "a=1,2", "a=2"), fresh, "lacks a/2", ""},
	{"cilium#47579", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			if e.Key == "c" && !p.has("a") {
				return nil // the row is not complete yet
			}
			return p.set(ctx, e.Key, "")
		}
	}, "c", "a c"), fresh, "lacks c", ""},
	{"calico#13263", with(func(p *parts) {
		var failed error
		p.update = func(ctx context.Context, e *entry) error {
			if failed != nil {
				return failed
			}
			return p.healthy.Update(ctx, nil, 0, e)
		}
		p.prune = func(ctx context.Context, objects iter.Seq2[*entry, statedb.Revision]) error {
			if failed = edge.Do(ctx, "list", func() error { return nil }); failed != nil {
				return fmt.Errorf("listing: %w", failed)
			}
			return p.healthy.Prune(ctx, nil, objects)
		}
	}, "a", "a b"), others, "a fault of the test", "lasting error"},
	{"kube-ovn#4995", func() sub {
		s := with(func(*parts) {})
		s.Foreign = func(s *store) { s.data["of another"] = "route" }
		return s
	}(), foreign, "lacks of another: route", foreign},
	{"kube-ovn#5172, the record is marked", counted(but(with(func(p *parts) {
		mine := map[string]bool{}
		p.update = func(ctx context.Context, e *entry) error {
			if !mine[e.Key] && !p.has(e.Key) {
				if _, err := p.created(context.Background(), e.Key); err != nil {
					return err
				}
				mine[e.Key] = true
			}
			return p.set(ctx, e.Key, "recorded")
		}
		p.delete = func(ctx context.Context, e *entry) error {
			return errors.Join(p.removeObjects(ctx, e.Key), p.remove(ctx, e.Key))
		}
		p.prune = keysOnly(p)
	}, "a"), "success without effect", "late effect")), fresh, "has a#: 2, not 1", "kill before"},
	{"kube-ovn#5172, the creation is marked", counted(but(with(func(p *parts) {
		mine := map[string]bool{}
		p.update = func(ctx context.Context, e *entry) error {
			if !mine[e.Key] && !p.has(e.Key) {
				_, err := p.created(ctx, e.Key)
				mine[e.Key] = len(p.objects(e.Key)) > 0
				if err != nil {
					return err
				}
			}
			return p.set(context.Background(), e.Key, "recorded")
		}
		p.delete = func(ctx context.Context, e *entry) error {
			return errors.Join(p.removeObjects(ctx, e.Key), p.remove(ctx, e.Key))
		}
		p.prune = byKey(p)
	}, "a"), "success without effect", "late effect")), fresh, "has a#: 2, not 1", "kill after"},
	{"sonic-swss#4850", batched(func(s *store) reconciler.BatchOperations[*entry] { return allOrNone{s} }, "a b=bad c"), converge, "terminal: an entry is bad", converge},
	{"an error is swallowed", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			_ = p.healthy.Update(ctx, nil, 0, e)
			return nil
		}
	}, "a"), fresh, "lacks a", ""},
	{"an operation gives up for good", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			return reconciler.TerminalError(errors.New("no"))
		}
	}, "a"), converge, "terminal: no", ""},
	{"cilium#38162", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			err := p.healthy.Update(ctx, nil, 0, e)
			if ctx.Err() != nil {
				time.Sleep(20 * time.Second) // an answer
			}
			return err
		}
	}), misbehaves, "does not heed its context", misbehaves},
	{"cassandra-operator#127", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			slices.Reverse(e.Values)
			return p.healthy.Update(ctx, nil, 0, e)
		}
	}), misbehaves, "changes the row that it was given", misbehaves},

	{"gardener#7784", but(with(func(p *parts) {
		p.delete = func(ctx context.Context, e *entry) error {
			if !p.has(e.Key) {
				return nil // it was deleted already
			}
			if err := p.remove(ctx, e.Key); err != nil {
				return err
			}
			return p.trim(ctx, e.Key, 0)
		}
		p.prune = keysOnly(p)
	}, "a=1,2 b", "b"), "success without effect"), fresh, "has a/0", ""},
	{"a deletion ends after a step that was repeated", but(with(func(p *parts) {
		p.delete = func(ctx context.Context, e *entry) error {
			for i := range 3 {
				if !p.has(e.Key) {
					break
				}
				if err := p.remove(ctx, e.Key); err != nil {
					if ctx.Err() != nil || i == 2 {
						return err
					}
				} else if i > 0 {
					return nil
				}
			}
			return p.trim(ctx, e.Key, 0)
		}
		p.prune = keysOnly(p)
	}, "a=1,2 b", "b"), "late effect", "success without effect", "kill after", "kill before", "kill and rewrite"), fresh, "has a/0", "error"},
	{"terraform-provider-alicloud#10060", counted(but(with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			if p.has(e.Key) {
				return nil
			}
			if _, err := p.created(ctx, e.Key); err != nil {
				return err
			}
			return p.set(context.Background(), e.Key, "recorded")
		}
		p.delete = func(ctx context.Context, e *entry) error {
			return errors.Join(p.removeObjects(ctx, e.Key), p.remove(ctx, e.Key))
		}
		p.prune = keysOnly(p)
		for name, key := range p.dump() { // adopts at the start what has no record
			if strings.Contains(name, "#") {
				_ = p.set(context.Background(), key, "recorded")
			}
		}
	}, "a"), "late effect", "success without effect")), fresh, "has a#: 2, not 1", "error after the effect"},
	{"keen-pbr#127", with(appliedOnce, "a=1 b", "a=2"), fresh, "", "success without effect"},
	{"calico#10087", func() sub {
		s := but(with(appliedOnce, "a", "a b"), "success without effect")
		s.Outside = map[string]func(*store){"a is removed": func(s *store) { s.mu.Lock(); delete(s.data, "a"); s.mu.Unlock() }}
		return s
	}(), fresh, "lacks a", "change from outside"},
	{"terraform-provider-cloudtemple#527", counted(but(with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			if len(p.objects(e.Key)) > 0 {
				return nil
			}
			_, err := p.created(ctx, e.Key)
			return err
		}
		p.delete = func(ctx context.Context, e *entry) error { return p.removeObjects(ctx, e.Key) }
		p.prune = byKey(p)
	}, "a"), "success without effect")), fresh, "has a#: 2, not 1", "late effect"},
	{"cluster-readiness-engine#349, deadline", but(with(func(p *parts) {
		p.delete = func(ctx context.Context, e *entry) error {
			err := p.healthy.Delete(ctx, nil, 0, e)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		}
		p.prune = nothing
	}, "a b", "b"), "success without effect", "kill before", "kill after", "kill and rewrite"), fresh, "has a", "timeout"},
	{"cluster-readiness-engine#349, cancelled", but(with(func(p *parts) {
		p.delete = func(ctx context.Context, e *entry) error {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil
			}
			return p.healthy.Delete(ctx, nil, 0, e)
		}
		p.prune = nothing
	}, "a b", "b"), "success without effect", "kill before", "kill after", "kill and rewrite"), fresh, "has a", "cancelled context"},
	{"rend#105", with(func(p *parts) {
		locked := false
		p.update = func(ctx context.Context, e *entry) error {
			if locked {
				return errors.New("locked")
			}
			locked = true
			err := p.healthy.Update(ctx, nil, 0, e)
			locked = false
			return err
		}
	}), misbehaves, "after the last fault: locked", "panic"},
	{"an intent is carried out at the start without its row", but(with(func(p *parts) {
		for name := range p.dump() {
			if key, found := strings.CutPrefix(name, "intent "); found {
				_ = p.set(context.Background(), key+"/0", "")
				_ = p.remove(context.Background(), name)
			}
		}
		p.update = func(ctx context.Context, e *entry) (err error) {
			for _, name := range []string{"intent " + e.Key, e.Key, e.Key + "/0"} {
				if err := p.set(ctx, name, ""); err != nil {
					return err
				}
			}
			return p.remove(ctx, "intent "+e.Key)
		}
		p.delete = func(ctx context.Context, e *entry) error {
			for _, name := range []string{"intent " + e.Key, e.Key + "/0", e.Key} {
				if err := p.remove(ctx, name); err != nil {
					return err
				}
			}
			return nil
		}
		p.prune = keysOnly(p)
	}, "a b", "b"), "success without effect"), fresh, "has a/0", "kill and rewrite"},
	{"fdb-kubernetes-operator#558", with(func(p *parts) {
		first := ""
		p.update = func(ctx context.Context, e *entry) error {
			if first != "" && first != e.Key {
				return errors.New("waits for " + first)
			}
			first = e.Key
			err := p.healthy.Update(ctx, nil, 0, e)
			if err == nil {
				first = ""
			}
			return err
		}
		p.delete = func(ctx context.Context, e *entry) error {
			if first == e.Key {
				first = ""
			}
			return p.healthy.Delete(ctx, nil, 0, e)
		}
	}), others, "waits for ", others},
	{"cilium#47579, blocked", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			if e.Key == "b" && !p.has("a") {
				return reconciler.Blocked("waits for a", make(chan struct{}))
			}
			return p.healthy.Update(ctx, nil, 0, e)
		}
	}, "b", "a b"), converge, "waits for a", converge},
	{"openshift/sdn#633", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			return edge.Do(ctx, "add", func() error { p.mu.Lock(); p.data[e.Key] += "+"; p.mu.Unlock(); return nil })
		}
	}, "a"), another, "has a: ++, not +", another},
	{"nethsecurity#895", with(func(p *parts) {
		p.update = func(ctx context.Context, e *entry) error {
			return errors.Join(p.set(ctx, "shared", ""), p.set(ctx, e.Key, ""))
		}
		p.prune = nothing
	}, "a"), leaves, "has shared", leaves},
	{"zephyr#119442", with(func(p *parts) {
		p.delete = func(ctx context.Context, e *entry) error {
			defer func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.made++; p.made > 1 {
					p.data["free"] = fmt.Sprint(p.made)
				}
			}()
			return p.remove(ctx, e.Key)
		}
		p.prune = nothing
	}, "a"), absent, "has free: 2", absent},
	{"bun#32918", func() sub {
		s := with(func(*parts) {})
		s.Config = func(s *store) reconciler.Config[*entry] {
			return reconciler.Config[*entry]{Operations: &parts{healthy: healthy{s}}, Lister: &cursor{store: s}, OrphansOnly: true}
		}
		return s
	}(), misbehaves, "the cursor is open", "half"},
	{"an Equal ignores a field", listed(func(s *store) reconciler.Lister[*entry] { return lister{s} },
		func(wanted, found *entry) bool { return len(wanted.Values) == len(found.Values) }, "a=1", "a=2"), fresh, "has a/0: 1, not 2", fresh},
	{"a List misses one kind", listed(func(s *store) reconciler.Lister[*entry] {
		return listing(func(yield func(*entry) bool) {
			for _, e := range (lister{s}).entries() {
				if len(e.Values) > 0 && !yield(e) {
					return
				}
			}
		})
	}, equalEntries, "a=1 b"), unequal, "missing: b", unequal},
	{"a List yields an old value, too", listed(func(s *store) reconciler.Lister[*entry] {
		return listing(func(yield func(*entry) bool) {
			for key, e := range (lister{s}).entries() {
				if !yield(e) || !yield(&entry{Key: key, Values: []string{"old"}}) {
					return
				}
			}
		})
	}, equalEntries, "a=1"), unequal, "1 different of 2 listed", unequal},
	{"a List is stale", listed(func(s *store) reconciler.Lister[*entry] {
		var cache map[string]*entry
		return listing(func(yield func(*entry) bool) {
			if cache == nil {
				cache = lister{s}.entries()
			}
			for _, e := range cache {
				if !yield(e) {
					return
				}
			}
		})
	}, equalEntries, "a=1"), unequal, "missing: a", unequal},
	{"a target normalises names", normalised(equalEntries), unequal, "orphan: www", ""},
	{"a target normalises names, and no values are listed", normalised(nil), unequal, "missing: www.", unequal},
}

// normalising keeps entries without the dot at the end of their keys.
type normalising struct{ plain }

func (n normalising) row(e *entry) *entry {
	return &entry{strings.TrimSuffix(e.Key, "."), e.Values}
}

func (n normalising) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	return n.plain.Update(ctx, txn, revision, n.row(e))
}

func (n normalising) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, e *entry) error {
	return n.plain.Delete(ctx, txn, revision, n.row(e))
}

// normalised returns a subject of a target whose listing has other keys than the rows: each resync deletes and makes the entry.
func normalised(equal func(wanted, found *entry) bool) sub {
	s := with(func(*parts) {}, "www.=1 b", "www.=2")
	s.Config = func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{
			Operations: normalising{plain{s}}, Equal: equal,
			Lister: listing(func(yield func(*entry) bool) {
				for key, value := range s.dump() {
					if !yield(&entry{key, strings.Fields(value)}) {
						return
					}
				}
			}),
		}
	}
	return s
}

// listing is a Lister.
type listing func(yield func(*entry) bool)

func (l listing) List(_ context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	l(yield)
	return nil
}

// listed returns a subject of healthy operations with a Lister.
func listed(list func(s *store) reconciler.Lister[*entry], equal func(wanted, found *entry) bool, states ...string) sub {
	s := with(func(*parts) {}, states...)
	s.Config = func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{Operations: healthy{s}, Lister: list(s), Equal: equal}
	}
	return s
}

// ways are bugs that one kind of way finds. The others find nothing that no other way finds: "as listed" is a part of
// "via another state and back", and each state from empty is run as the reference.
var ways = []struct {
	way string
	sub sub
}{
	{check.Back, with(deletedForGood, "a", "b")},
	{check.Between, with(deletedForGood, "a=1", "a=2")},
	{check.Backwards, with(func(p *parts) { // what was there at the creation is not given back
		created := map[string]int{}
		p.update = func(ctx context.Context, e *entry) error {
			if created[e.Key] == 0 {
				created[e.Key] = len(e.Values)
			}
			for i, v := range e.Values {
				if err := p.set(ctx, fmt.Sprintf("%s/%d", e.Key, i), v); err != nil {
					return err
				}
			}
			return p.trim(ctx, e.Key, max(created[e.Key], len(e.Values)))
		}
	}, "a=1", "a=1,2")},
	{check.Reverse, with(func(p *parts) { // the first key that comes is preferred
		first := ""
		p.update = func(ctx context.Context, e *entry) error {
			if first == "" {
				first = e.Key
			}
			return p.set(ctx, e.Key, map[bool]string{true: "preferred"}[first == e.Key])
		}
	}, "a b")},
	{check.Emptied, but(with(func(p *parts) { // a deletion that is cancelled counts as done
		p.delete = func(ctx context.Context, e *entry) error {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil
			}
			return p.healthy.Delete(ctx, nil, 0, e)
		}
		p.prune = nothing
	}, "a"), "success without effect", "kill before", "kill after", "kill and rewrite")},
}

// appliedOnce does not apply again what it has applied, whatever became of it.
func appliedOnce(p *parts) {
	applied := map[string]string{}
	p.update = func(ctx context.Context, e *entry) error {
		if applied[e.Key] == fmt.Sprint(e) {
			return nil
		}
		err := p.healthy.Update(ctx, nil, 0, e)
		if delete(applied, e.Key); err == nil {
			applied[e.Key] = fmt.Sprint(e)
		}
		return err
	}
	p.delete = func(ctx context.Context, e *entry) error {
		delete(applied, e.Key)
		return p.healthy.Delete(ctx, nil, 0, e)
	}
}

// deletedForGood takes a key that returns for one that is still deleted.
func deletedForGood(p *parts) {
	deleted := map[string]bool{}
	p.update = func(ctx context.Context, e *entry) error {
		if deleted[e.Key] {
			return nil
		}
		return p.healthy.Update(ctx, nil, 0, e)
	}
	p.delete = func(ctx context.Context, e *entry) error {
		deleted[e.Key] = true
		return p.healthy.Delete(ctx, nil, 0, e)
	}
}

// allOrNone fails all entries of a batch if one fails.
type allOrNone struct{ *store }

func (a allOrNone) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*entry]) {
	var err error
	for _, e := range batch {
		if slices.Contains(e.Object.Values, "bad") {
			err = reconciler.TerminalError(errors.New("an entry is bad"))
			break
		}
	}
	for _, e := range batch {
		if err != nil {
			break
		}
		err = errors.Join(err, a.set(ctx, e.Object.Key, fmt.Sprint(e.Object)))
	}
	for i := range batch {
		batch[i].Result = err
	}
}

func (a allOrNone) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*entry]) {
	for i, e := range batch {
		batch[i].Result = a.remove(ctx, e.Object.Key)
	}
}

// batched returns a subject of operations on batches, without a prune.
func batched(operations func(s *store) reconciler.BatchOperations[*entry], states ...string) sub {
	s := with(func(*parts) {}, states...)
	s.Config = func(s *store) reconciler.Config[*entry] {
		return reconciler.Config[*entry]{BatchOperations: operations(s), Lister: keyLister{s}, OrphansOnly: true}
	}
	return s
}

// keyLister lists the keys of what the target has.
type keyLister struct{ *store }

func (s keyLister) List(ctx context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	seen := map[string]bool{}
	for name := range s.dump() {
		key, _, _ := strings.Cut(name, "/")
		if !seen[key] && !yield(&entry{Key: key}) {
			return nil
		}
		seen[key] = true
	}
	return nil
}

// cursor is a keyLister that can list once at a time.
type cursor struct {
	*store
	open bool
}

func (c *cursor) List(ctx context.Context, txn statedb.ReadTxn, yield func(*entry) bool) error {
	if c.open {
		return errors.New("the cursor is open")
	}
	c.open = true
	stopped := false
	err := keyLister{c.store}.List(ctx, txn, func(e *entry) bool { stopped = !yield(e); return !stopped })
	c.open = stopped
	return err
}

func TestEachBugIsFound(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug.source, func(t *testing.T) {
			failure := check.Expect(t, "", func() { reconcilertest.Check(t, bug.sub) })
			require.NotNil(t, failure)
			require.Equal(t, bug.check, failure.Check, failure.Text)
			require.Contains(t, failure.Text, bug.says)
			t.Log(failure.Text)
		})
	}
}

// A bug is not found, or not by its check, when the check or the kind of fault that finds it is left out.
func TestEachCheckAndFaultIsNeeded(t *testing.T) {
	long.Only(t)
	needed := map[string]bool{}
	for _, bug := range bugs {
		if bug.only == "" {
			continue
		}
		needed[bug.only] = true
		t.Run(bug.only+": "+bug.source, func(t *testing.T) {
			failure := check.Expect(t, bug.only+"; "+check.Pairs, func() { reconcilertest.Check(t, bug.sub) })
			if failure != nil {
				require.NotEqual(t, bug.check, failure.Check, failure.Text)
			}
		})
	}
	for _, name := range slices.Concat(check.Names(), check.Checks()) {
		require.True(t, needed[name], "no bug needs %q", name)
	}
}

func TestKindsOfWaysAreNeeded(t *testing.T) {
	long.Only(t)
	for _, bug := range ways {
		t.Run(bug.way, func(t *testing.T) {
			require.NotNil(t, check.Expect(t, check.Pairs, func() { reconcilertest.Check(t, bug.sub) }))
			if bug.way != check.Emptied {
				bug.sub.Runs = 1 // the ways without faults
			}
			failure := check.Expect(t, bug.way+"; "+check.Pairs, func() { reconcilertest.Check(t, bug.sub) })
			require.Nil(t, failure)
		})
	}
}
