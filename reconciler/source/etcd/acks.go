// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Ack is what one agent says in the key acks/NAME: how far it is with what a store wants. The zero value
// says that it has done nothing.
type Ack struct {
	// Store is the identity of the store, the value of Config.Identity, that Revision belongs to. If the
	// store has another one, the ack is not about what it wants now.
	Store string `json:"store"`
	// Revision is the revision of the store up to which the reconciler has attempted every change of
	// the prefix at least once; zero before the first list was attempted. A change that is followed by
	// another one of the same object counts as the later one. It is written when the prefix changes, so
	// compare it with the revision of a change of the prefix: the store may be at a later one. While the
	// reconciler is paused as a whole, or a derivation is, it stays. A change of an object that is paused, or
	// waits for its minimum backoff after a failure, counts as attempted.
	Revision uint64 `json:"revision"`
	// AppliedRevision is the revision up to which everything was in the target at least once, and nothing
	// was bad: at most Revision. It stays while an object fails, is blocked or paused, or its operation hangs.
	AppliedRevision uint64 `json:"applied"`
	// Failing, Blocked and Paused count the objects of the reconciler that are in this state now. They are for
	// people: an object that waits for its turn, or whose operation hangs, is in none.
	Failing int `json:"failing,omitempty"`
	Blocked int `json:"blocked,omitempty"`
	Paused  int `json:"paused,omitempty"`
	// Bad counts the keys that [Source.Bad] counts, the objects that a table of the path rejects, and rows with
	// a zero status, which the reconciler leaves alone: at Revision, or when the ack was written, whichever is
	// more. Of rows with a zero status it counts at most a thousand.
	Bad int `json:"bad,omitempty"`
	// Held counts the rows of a former store that the store does not have, and that the source keeps for now.
	Held int `json:"held,omitempty"`
	// Unpruned reports whether the target may have what it had before the program began: the first prune, or
	// resync, has not succeeded, or its deletions may not be carried out. It is false if the loop did not prune
	// by itself when Run began.
	Unpruned bool `json:"unpruned,omitempty"`
	// Problems describes at most ten of all these, one line each, and what else is wrong.
	Problems []string `json:"problems,omitempty"`
}

// Applied reports whether everything that the store wanted at a revision has been applied, of an object that
// changed again this or a later version, and nothing is bad, held or unpruned now, also if that is about a key
// of another writer. It does not look at Store: compare that with the identity of the store first. An object
// that was applied and fails at a refresh since is in Failing.
func (a Ack) Applied(revision uint64) bool {
	return a.AppliedRevision >= revision && a.Bad == 0 && a.Held == 0 && !a.Unpruned
}

// Acks tells a store how far one reconciler of this program is. It writes an [Ack] as JSON into the key
// acks/NAME when it changes, at most once a second; the key stays when the program ends, and is a zero Ack
// from when the next one begins. It holds the empty key alive/NAME with a lease for as long as it runs. If
// the lease ends, the store is another one, or one of the keys is deleted, it writes both again: within a
// third of TTL, first a zero Ack.
//
// Set the fields and call [Acks.Run]. NAME must be unique among the agents of a store: the program that began
// last has the keys, and the others report that and write neither until it has ended.
type Acks struct {
	// Name is the name of this agent. It must not be empty or contain "/".
	Name string
	// Source is the [*Source] that reads the store. Its client is used. Required.
	Source followed
	// DB has the tables. Required.
	DB *statedb.DB
	// Loop reconciles the table of the source, or one that is derived from it: the tables on the way are found in
	// the tables <table>-inputs. While a derivation on the way is missing, Health and the ack say so. Of a join all inputs
	// are followed that come from the source; one without any input counts as written by hand, so make the derivations of
	// a join before Run. It is a *reconciler.Loop, not a derivation. Required.
	Loop inspect.Inspector

	// Prefix comes before acks/NAME and alive/NAME. With it they must not begin with Config.Prefix
	// of the source.
	Prefix string
	// TTL is for how long alive/NAME stays when the program is gone. It is rounded up to seconds. Zero
	// means 15 s.
	TTL time.Duration
	// Health is told when the store does not take the ack or the lease, a table of the path has no input, or the
	// loop does not run any more. It must be of these Acks alone. Nil means none.
	Health cell.Health
	// Log gets failures. Nil means none.
	Log *slog.Logger
	// Told is called with each ack that was to be written, and the error of that; nil if the store has taken it.
	// It is for metrics, such as those of package metrics/prometheus. One goroutine calls it, and the next ack
	// waits for it. Nil means none.
	Told func(ack Ack, err error)
}

// followed is what Acks asks of a Source.
type followed interface {
	badSince(revision uint64) ([]error, int)
	Holding() int
	isHolding() bool
	lastEvent() uint64
	current() (store string, changed <-chan struct{})
	place() place
}

// place is where a source reads.
type place struct {
	client                  *clientv3.Client
	prefix, identity, input string // input is that of the first table
	timeout                 time.Duration
}

func (s *Source[Obj]) place() place {
	return place{client: s.cfg.Client, prefix: s.cfg.Prefix, identity: s.cfg.Identity, input: s.cfg.Sink.Input(), timeout: s.cfg.Check}
}

// gap is the shortest time between two writes of an ack, and the time between two looks at the loop.
const gap = time.Second

// Run tells the store until ctx ends, then removes alive/NAME, and returns nil. An error means that a
// field is wrong, and joins everything that is. The loop may be started later.
func (a Acks) Run(ctx context.Context) error {
	r, err := a.complete()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for m := range reconciler.Milestone(len(r.reached)) {
		wg.Go(func() { r.follow(ctx, m) })
	}
	wg.Go(func() { r.keepAlive(ctx) })
	r.tell(ctx)
	wg.Wait()
	return nil
}

// complete returns what runs, or everything that is wrong with the fields.
func (a Acks) complete() (*reporter, error) {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("Acks."+field+" "+format, args...))
	}
	if a.Name == "" || strings.Contains(a.Name, "/") {
		wrong("Name", "is %q, must not be empty or contain a slash", a.Name)
	}
	if a.TTL < 0 {
		wrong("TTL", "is %s, must not be negative", a.TTL)
	}
	if isNil(a.Loop) {
		wrong("Loop", "is nil")
		a.Loop = nil
	}
	a.TTL = (cmp.Or(a.TTL, defaultTTL) + time.Second - 1).Truncate(time.Second)
	a.Log = cmp.Or(a.Log, slog.New(slog.DiscardHandler))
	if a.Health == nil {
		a.Health = health.None()
	}
	if a.Told == nil {
		a.Told = func(Ack, error) {}
	}
	r := &reporter{
		Acks: a, ack: a.Prefix + "acks/" + a.Name, alive: a.Prefix + "alive/" + a.Name,
		look: signal.New(), rewrite: signal.New(), problems: map[string]error{},
	}
	if isNil(a.Source) {
		wrong("Source", "is nil")
	} else {
		r.place = a.Source.place()
		for _, key := range []string{r.ack, r.alive} {
			if strings.HasPrefix(key, r.prefix) {
				wrong("Prefix", "is %q, so %q begins with the prefix of the source, %q", a.Prefix, key, r.prefix)
			}
			if key == r.identity {
				wrong("Prefix", "is %q, so %q is the key of the identity of the source", a.Prefix, key)
			}
		}
	}
	if a.DB == nil {
		wrong("DB", "is nil")
	} else if a.Loop != nil {
		r.path = inputs.Path{DB: a.DB, First: r.input, Last: a.Loop.ID().Table}
		if a.DB.GetTable(a.DB.ReadTxn(), r.path.Last) == nil {
			wrong("Loop", "is of the table %q, which Acks.DB does not have", r.path.Last)
		}
	}
	return r, errors.Join(errs...)
}

// isNil reports whether an interface is nil, or has a nil pointer.
func isNil(v any) bool {
	p := reflect.ValueOf(v)
	return v == nil || p.Kind() == reflect.Pointer && p.IsNil()
}
