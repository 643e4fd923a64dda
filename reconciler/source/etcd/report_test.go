// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
)

// badSource is a source that has a number of bad keys, of a store that is not replaced.
type badSource struct {
	followed
	bad      atomic.Int64
	replaced chan struct{}
}

func (s *badSource) badSince(uint64) ([]error, int)     { return nil, int(s.bad.Load()) }
func (s *badSource) isHolding() bool                    { return false }
func (s *badSource) current() (string, <-chan struct{}) { return "s", s.replaced }

// waitedLoop is a loop that calls a function in each wait, and has a number of rows without a status.
type waitedLoop struct {
	inspect.Inspector
	waits   int
	waiting func(wait int)
	// counted is how many such rows the loop has met, unset how many there are now.
	counted uint64
	unset   int
}

func (l *waitedLoop) WaitAll(context.Context, reconciler.Milestone) (none inspect.Unapplied, err error) {
	l.waits++
	l.waiting(l.waits)
	return none, nil
}

func (l *waitedLoop) Figures() metrics.Figures { return metrics.Figures{Unset: l.counted} }

func (l *waitedLoop) Objects(context.Context, inspect.ObjectQuery) (inspect.ObjectPage, error) {
	return inspect.ObjectPage{Objects: make([]inspect.ObjectLine, l.unset)}, nil
}

// What is mended while the loop is waited for was written after the wait began, which does not wait for it.
func TestAckIsNotAppliedOfWhatIsMendedInTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		before, inWait func(*badSource, *waitedLoop)
		waits          int // after which the revision is applied
	}{
		"nothing is wrong": {func(*badSource, *waitedLoop) {}, func(*badSource, *waitedLoop) {}, 1},
		"a key decodes at last": {
			func(s *badSource, _ *waitedLoop) { s.bad.Store(1) }, func(s *badSource, _ *waitedLoop) { s.bad.Store(0) }, 2,
		},
		"a row gets its status": {
			func(_ *badSource, l *waitedLoop) { l.counted, l.unset = 1, 1 }, func(_ *badSource, l *waitedLoop) { l.unset = 0 }, 2,
		},
		"a row is met without a status, and gets one": {
			func(*badSource, *waitedLoop) {}, func(_ *badSource, l *waitedLoop) { l.counted = 1 }, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, _ := newThings(t)
				table, err := inputs.Open(db, "things")
				if err != nil {
					t.Fatal(err)
				}
				wtxn := db.WriteTxn(table.Meta())
				table.Publish(wtxn, "etcd", 7, 7)
				wtxn.Commit()
				s, l := &badSource{replaced: make(chan struct{})}, &waitedLoop{}
				c.before(s, l)
				r := &reporter{
					Acks: Acks{Source: s, Loop: l}, place: place{timeout: time.Second},
					path: inputs.Path{DB: db, First: "things/etcd", Last: "things"}, look: make(chan struct{}, 1),
				}
				applied := 0 // the wait before which the revision was applied first
				l.waiting = func(wait int) {
					if r.reached[reconciler.Applied].Revision == 7 && applied == 0 {
						applied = wait - 1
					}
					if wait == 1 {
						c.inWait(s, l)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { r.follow(ctx, reconciler.Applied); close(ended) }()
				time.Sleep(10 * time.Second)
				cancel()
				<-ended
				if applied != c.waits {
					t.Errorf("the revision is applied after wait %d, wanted %d", applied, c.waits)
				}
			})
		})
	}
}

// A pointer in an interface may be nil, too.
func TestNilPointersInAcksAreNamed(t *testing.T) {
	names(t, Acks{Name: "a", Source: (*Source[*thing])(nil), Loop: (*reconciler.Loop[*thing])(nil), DB: (*statedb.DB)(nil)}.Run(t.Context()),
		"Acks.Source is nil", "Acks.Loop is nil", "Acks.DB is nil")
}

type worse struct{}

func (w worse) Error() string { panic(w) }

func TestErrorOfABadKeyIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, atOnce, func(cfg *Config[*thing], _ *source.Config[*thing]) {
			cfg.Decode = func(key string, _ []byte) (*thing, error) {
				switch key {
				case "error":
					return nil, errors.New(strings.Repeat("x", 1<<20))
				case "panic":
					panic(strings.Repeat("x", 1<<20))
				default:
					panic(worse{})
				}
			}
		})
		defer f.stop()
		f.write(map[string]string{"error": "1", "panic": "1", "worse": "1"})
		f.wait(time.Minute)
		errs := f.bad()
		if len(errs) != 3 {
			t.Fatalf("bad are %v", errs)
		}
		for _, err := range errs {
			if n := len(err.Error()); n > reconciler.MaxErrorText+100 {
				t.Errorf("the error has %d bytes", n)
			}
		}
	})
}

func TestRunEndsWithAnErrorWhenDecodeEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends atomic.Bool
		f := follow(t, atOnce, func(cfg *Config[*thing], _ *source.Config[*thing]) {
			cfg.Decode = func(key string, value []byte) (*thing, error) {
				if key == "z" && ends.Load() {
					runtime.Goexit()
				}
				return decodeShared(key, value)
			}
		})
		f.write(map[string]string{"a": "a/1", "b": "bad"})
		f.wait(time.Minute)
		ends.Store(true)
		f.write(map[string]string{"a": "a/2", "b": "b/2", "c": "a/3", "z": "z/1"})
		f.wait(time.Minute)
		if f.source.State().Connected {
			t.Error("it is connected")
		}
		if err := f.endedWith(); !errors.Is(err, guard.ErrGoexit) {
			t.Fatalf("Run returned %v", err)
		}
		ends.Store(false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.source.Run(ctx) }()
		f.wait(time.Minute)
		f.has("again", "a:2 b:2 z:1", 0)
		if bad := f.bad(); len(bad) != 1 {
			t.Errorf("bad are %v", bad)
		}
		cancel()
		<-ended
		f.source.cfg.Sink.Close()
	})
}
