// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/source"
)

const (
	// gather is how long a look waits after the first event, for those that come with it.
	gather = 20 * time.Millisecond
	// busyShare and idleShare bound the time that looks take: after an event a tenth, otherwise a hundredth.
	busyShare, idleShare = 10, 100
)

// Source fills a table from files. Make one with [New]. Its methods are safe for concurrent use.
//
// A look lists the folder, and asks for the description of each file: 20 ms for 10,000 files. Looks that follow events, or
// each other, take a tenth of the time of a processor at most, and those without an event a hundredth. Only files that may
// have changed are read, and only those whose content has changed are parsed. Then all objects are compared with the table.
// The source keeps the objects of each file, which the table has, too, unless the sink merges.
type Source[Obj any] struct {
	cfg  Config[Obj]
	runs atomic.Bool // Run does
	// running is the function of the program that Run calls.
	running guard.Running
	wake    signal.Signal
	// newWatcher, isWritten and resolve, which is [filepath.EvalSymlinks], ask the system; tests answer in its place.
	newWatcher func(signal.Signal) (watcher, error)
	isWritten  func(*os.File) (is, known bool)
	resolve    func(path string) (string, error)

	// The following belong to the goroutine of Run.

	// files are those that are, or were, on disk, by path. away is why Path could not be read at the last look, and
	// gone since when that is.
	files map[string]*file[Obj]
	away  error
	gone  time.Time
	// version is the revision of the source: the number of states that were put into the sink.
	version uint64
	// given has what was put into the sink, by key, before each file had a good version; nil after that.
	given map[string]Obj
	// unapplied reports whether the files have changed since the last state was put into the sink, and applied is the
	// error of that.
	unapplied bool
	applied   error
	// reading is for how long the last look has read, parsed and applied: that is for changes, and is not spaced.
	reading time.Duration
	// watch tells of changes; nil if there is none left. watchErr is why it does not tell all.
	watch    watcher
	watchErr string

	mu sync.Mutex
	// waits are the calls of Loaded that wait.
	waits []*wait
	// problems are what was reported last, and hung reports whether a function that hangs was reported with them.
	problems []problem
	hung     bool
}

// wait is a call of [Source.Loaded].
type wait struct {
	path  string        // empty for all files
	ended chan struct{} // closed when err is set
	err   error
	why   string // what it waits for
	left  bool   // the call has returned
}

// New makes a source. The error joins everything that is wrong with the configuration.
func New[Obj any](cfg Config[Obj]) (*Source[Obj], error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Source[Obj]{
		cfg: cfg, wake: signal.New(), newWatcher: newWatcher, isWritten: isWritten, resolve: filepath.EvalSymlinks,
		files: map[string]*file[Obj]{}, given: map[string]Obj{}, unapplied: true,
	}
	s.cfg.Sink.SetLoaded(func(ctx context.Context) error { return s.Loaded(ctx, cfg.Path) })
	return s, nil
}

// Run follows the files until ctx ends, and then returns nil. What is wrong with them is in the state and the health of
// the sink. Run may be called again after it has returned. It returns an error, at once, if it runs already, or if a
// function of the program calls runtime.Goexit.
func (s *Source[Obj]) Run(ctx context.Context) error {
	if !s.runs.CompareAndSwap(false, true) {
		return errors.New("the source runs already")
	}
	defer s.runs.Store(false)
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { s.keepReporting(ctx) })
	defer func() {
		cancel()
		reports.Wait()
	}()
	var err error
	if s.watch, err = s.newWatcher(s.wake); err != nil {
		s.cfg.Log.Warn("Changes of files are noticed late", "path", s.cfg.Path, "every", s.cfg.Poll, "error", err)
	} else {
		defer s.watch.close()
	}
	if !guard.Returned(func() { s.follow(ctx) }) {
		err = fmt.Errorf("files %s: %w", s.cfg.Path, guard.ErrGoexit)
		s.cfg.Sink.Disconnected(err)
		return err
	}
	s.cfg.Sink.Disconnected(nil)
	return nil
}

// follow looks at the files until ctx ends.
func (s *Source[Obj]) follow(ctx context.Context) {
	for {
		began := time.Now()
		s.reading = 0
		waits := s.takeWaits()
		next := s.look(ctx, began)
		if ctx.Err() != nil {
			s.keepWaits(waits)
			return
		}
		s.answer(waits)
		took := time.Since(began) - s.reading
		next = min(next, max(s.cfg.Poll, idleShare*took))
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			sleep(ctx, max(gather, busyShare*took))
		case <-time.After(max(next, busyShare*took)):
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// look reads what has changed, and puts it into the sink. It returns after which time the next look is due.
func (s *Source[Obj]) look(ctx context.Context, now time.Time) (next time.Duration) {
	next, s.away = s.scan(now)
	if ctx.Err() != nil {
		return next
	}
	switch {
	case s.away != nil:
		if s.gone.IsZero() {
			s.gone = now
		}
		if left := s.cfg.Settle - now.Sub(s.gone); left > 0 { // then health tells
			next = min(next, left)
		}
		s.cfg.Sink.Disconnected(s.away)
	// After an approval the list is applied once more: then the error is that of now.
	case s.unapplied || errors.Is(s.applied, source.ErrHeld) && s.cfg.Sink.State().Held == 0:
		began := time.Now()
		s.gone = time.Time{}
		s.apply(ctx)
		s.reading += time.Since(began)
	default:
		s.gone = time.Time{}
		s.cfg.Sink.Connected()
	}
	s.report(now)
	return next
}

// takeWaits returns the calls of Loaded that the next look answers, and leaves none.
func (s *Source[Obj]) takeWaits() (waits []*wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits, s.waits = s.waits, nil
	return waits
}

func (s *Source[Obj]) keepWaits(waits []*wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, waits...)
}

// answer ends the calls of Loaded whose files are in the table, or cannot be. The others wait for further looks.
func (s *Source[Obj]) answer(waits []*wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range waits {
		if w.left {
			continue
		}
		if w.why, w.err = s.lacks(w.path); w.why == "" {
			close(w.ended)
		} else {
			s.waits = append(s.waits, w)
		}
	}
}

// lacks returns what a path waits for, or why it cannot be in the table; neither if it is.
func (s *Source[Obj]) lacks(path string) (why string, err error) {
	if s.away != nil {
		return "", s.away
	}
	var errs []error
	for _, f := range s.sorted() {
		switch {
		case path != "" && path != f.path:
		case f.waits != "":
			return f.path + " " + f.waits, nil
		case f.behind != "":
			return fmt.Sprintf("%s has a key of %s, which is missing", f.path, f.behind), nil
		case len(f.leaving) > 0:
			return f.path + " had objects that are about to be removed", nil
		default:
			errs = append(errs, f.err)
			for _, problem := range f.lost {
				errs = append(errs, problem.Err)
			}
		}
	}
	return "", errors.Join(append(errs, s.applied)...)
}

// Loaded waits until what is on disk now is in the table: of one file, or of all if path is Config.Path. It returns an
// error if that cannot be: the errors of a bad file, keys that another file has, objects that the sink has rejected,
// deletions that are held. While Run does not run, and while a program writes a file, it waits; the error of ctx names
// what for. It is an error if path is not Config.Path or a file in it that the source reads.
func (s *Source[Obj]) Loaded(ctx context.Context, path string) error {
	w := &wait{ended: make(chan struct{}), why: "the source does not run"}
	if clean := filepath.Clean(path); clean != s.cfg.Path {
		if filepath.Dir(clean) != s.cfg.Path || !s.cfg.matches(filepath.Base(clean)) {
			return fmt.Errorf("%s is not a file of %s that is read", path, s.cfg.Path)
		}
		w.path = clean
	}
	s.keepWaits([]*wait{w})
	s.wake.Send()
	select {
	case <-w.ended:
		return w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.left = true
	s.waits = slices.DeleteFunc(s.waits, func(other *wait) bool { return other == w })
	return fmt.Errorf("%s is not in the table: %s: %w", path, w.why, ctx.Err())
}

// keepReporting tells of a function of the program that hangs, while Run waits for it.
func (s *Source[Obj]) keepReporting(ctx context.Context) {
	again := time.NewTicker(guard.LongAfter)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			s.mu.Lock()
			if long := s.running.Long(); long != "" {
				s.hung = true
				s.cfg.Sink.Report(append(slices.Clone(s.problems), problem{Err: errors.New(long)})...)
			}
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}
