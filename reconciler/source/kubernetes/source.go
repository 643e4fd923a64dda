// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/problems"
)

const (
	// maxAhead bounds the events that are read and not taken yet. What comes after them waits in the server.
	maxAhead = 1000
	// silence is for how long nothing may come: the server sends a bookmark every minute.
	silence = 3 * time.Minute
	// atOnce is how early a watch ends that is none: a server that comes back may take it, and say then that it cannot.
	atOnce = time.Second
	// maxLag bounds the time for which changes wait for those that came with them.
	maxLag = 2 * time.Second
)

var errSilent = fmt.Errorf("nothing has come for %s, not even a bookmark", silence)

// Source fills a table from the objects of a kind. Make one with [New]. Its methods are safe for concurrent use.
type Source[Kind object, Obj any] struct {
	cfg       Config[Kind, Obj]
	server    server
	reflector *cache.Reflector
	backoff   backoff.Exponential
	runs      atomic.Bool // Run does
	// asking has an element while a list is asked for, which the Reflector does on a goroutine that it does not wait for.
	asking chan struct{}
	// lists takes the calls of Loaded.
	lists chan chan<- error

	// The following belong to the goroutine that asks the server, that of Run or of a list: one at a time does.

	// stream is the last watch; nil if it was seen that it has ended. failures is the number of attempts that have failed
	// since the server was last read, and pause the wait before the next one.
	stream   *stream[Kind]
	failures int
	pause    time.Duration
	// found is the UID of the cluster that is read; empty if that may not be read, for the reason unnamed.
	found   string
	unnamed error

	// The following belong to the goroutine of Run.

	ctx context.Context // of Run
	// wants has the rows that each object wants, by namespace and name. gone has, by their keys, the rows that objects
	// wanted before they changed, since the last write.
	wants claims.Set[struct{}, Obj]
	gone  map[string]Obj
	// bad are the objects for which Rows failed, and shared the rows that several objects want, by their keys.
	bad, shared problems.Set
	// cluster is the UID of the cluster that was listed last, as found. version is the newest resource version that was
	// seen in it, and at the number of it. same reports whether it was the one that had been listed before.
	cluster, version string
	at               uint64
	same             bool
	// former are objects of another cluster, or of an earlier state of it, that are not in this one: their rows are held.
	// quiet is the number of bookmarks since the last object was added.
	former map[string]struct{}
	quiet  int
	// bookmarks reports whether the server sends any: it does not for a kind that it has no cache of, such as events.
	bookmarks bool
	// full reports whether the table has everything up to the version included, but for what was read since.
	full     bool
	included uint64
	// behind is since when something was read that is not written; zero if nothing was.
	behind time.Time
	// told is what the sink was told last, and waits are answered after the next list.
	told  string
	waits []chan<- error
}

// New makes a source. The error joins everything that is wrong with the configuration.
func New[Kind object, Obj any](cfg Config[Kind, Obj]) (*Source[Kind, Obj], error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	asks, err := newClient(&cfg)
	if err != nil {
		return nil, err
	}
	return newSource(cfg, asks), nil
}

func newSource[Kind object, Obj any](cfg Config[Kind, Obj], server server) *Source[Kind, Obj] {
	s := &Source[Kind, Obj]{
		cfg: cfg, server: server, asking: make(chan struct{}, 1), lists: make(chan chan<- error),
		backoff: backoff.Exponential{
			Min: cfg.Backoff, Max: 30 * cfg.Backoff, Jitter: 1, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		},
		wants: claims.New[struct{}, Obj](), gone: map[string]Obj{}, bad: problems.New(), shared: problems.New(),
		former: map[string]struct{}{},
	}
	// The source tells of errors, and waits where it asks: the Reflector need not.
	s.reflector = cache.NewReflectorWithOptions(
		&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, *new(Kind), store[Kind, Obj]{s},
		cache.ReflectorOptions{
			Name: cfg.Sink.Input(), TypeDescription: cfg.Resource,
			Logger: new(logr.Discard()), Backoff: &wait.Backoff{Duration: time.Millisecond},
		})
	cfg.Sink.SetLoaded(s.Loaded)
	return s
}

// Run follows the server until ctx ends, and then returns nil. When the server is away it tries again for as long as it
// takes: what is wrong is in the state and the health of the sink. Run may be called again after it has returned. It
// returns an error, at once, if it runs already, or if a function of the program calls runtime.Goexit.
func (s *Source[Kind, Obj]) Run(ctx context.Context) error {
	if !s.runs.CompareAndSwap(false, true) {
		return errors.New("the source runs already")
	}
	defer s.runs.Store(false)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer func() {
		cancel()
		s.asking <- struct{}{}
		<-s.asking
	}()
	s.ctx = ctx
	if !guard.Returned(func() {
		for ctx.Err() == nil {
			// It returns when the kind has to be listed again, or if the server cannot be followed.
			if err := s.reflector.ListAndWatchWithContext(ctx); err != nil && err != errSilent && ctx.Err() == nil {
				s.failed(err)
			}
		}
	}) {
		s.full = false
		s.cfg.Sink.Disconnected(guard.ErrGoexit)
		return guard.ErrGoexit
	}
	s.cfg.Sink.Disconnected(errors.New("the source has stopped"))
	return nil
}

// Loaded has the kind listed, and waits until what the server has now is in the table. It returns an error if that cannot
// be: objects are bad or rejected, rows are held. All else is in then. While the source does not run, or the server is
// away, it waits, until ctx ends.
func (s *Source[Kind, Obj]) Loaded(ctx context.Context) error {
	done := make(chan error, 1)
	for lists := s.lists; ; lists = nil {
		select {
		case lists <- done:
		case err := <-done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s are not listed yet: %w", s.cfg.Resource, errors.Join(ctx.Err(), s.cfg.Sink.State().Err))
		}
	}
}

// list answers the Reflector with a list, or with a page of it. It tries for as long as it takes.
func (s *Source[Kind, Obj]) list(ctx context.Context, opts metav1.ListOptions) (list runtime.Object, err error) {
	s.asking <- struct{}{}
	defer func() { <-s.asking }()
	opts.ResourceVersion = "" // what the server has now
	err = s.try(ctx, "listing", isExpired, opts.Continue == "", func() error {
		list, err = s.server.list(ctx, opts)
		return err
	})
	return list, err
}

// watch answers the Reflector with a watch, which may begin with all objects. It tries for as long as it takes.
func (s *Source[Kind, Obj]) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	lists, isAnswer, follows := opts.SendInitialEvents != nil, isExpired, s.cfg.Sink.Connected
	if lists {
		opts.ResourceVersion, isAnswer, follows = "", cannotStream, func() {}
	}
	x := &stream[Kind]{run: ctx, lists: lists, early: true, cancel: func() {}, events: make(chan watch.Event, maxAhead)}
	err := s.try(ctx, "watching", isAnswer, lists, func() (err error) {
		x.cancel() // another cluster has answered after it
		ctx, cancel := context.WithCancel(ctx)
		x.ctx, x.cancel = ctx, cancel
		late := time.AfterFunc(answerTimeout, cancel)
		if x.Interface, err = s.server.watch(ctx, opts); err == nil {
			x.cancel = func() { cancel(); x.Interface.Stop() }
		}
		if !late.Stop() {
			err = fmt.Errorf("no answer for %s", answerTimeout)
		}
		if err != nil {
			return err
		}
		version, err := s.server.version(ctx)
		if err == nil && !lists && s.isBehind(version) {
			err = apierrors.NewResourceExpired(fmt.Sprintf("the version went back from %s to %s", s.version, version))
		}
		return err
	})
	if err != nil {
		x.cancel()
		return nil, err
	}
	s.stream = x
	go x.pass(s.lists, follows)
	return x, nil
}

// isExpired reports whether the server no longer has a version, and cannotStream whether it may list only in pages.
func isExpired(err error) bool    { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
func cannotStream(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// try asks the server until it answers. An error that isAnswer takes is one for the Reflector, and so is errSilent. A list
// that begins is of one cluster, and so is the watch after it: otherwise the error has the Reflector list again.
func (s *Source[Kind, Obj]) try(
	ctx context.Context, doing string, isAnswer func(error) bool, begins bool, ask func() error,
) error {
	// A list may be asked for when Run has returned.
	for ctx.Err() == nil {
		err := s.wait(ctx)
		if err != nil {
			return err
		}
		if begins {
			s.found, err = s.identify(ctx)
		}
		if err == nil {
			err = ask()
		}
		if err == nil {
			// It comes after the answer: a server that is replaced later ends the connection of a watch.
			var uid string
			if uid, err = s.identify(ctx); err == nil && uid != s.found {
				if begins && (uid == "" || s.found == "") { // the right to read the UID has just come, or gone
					s.pause = s.backoff.Delay(1)
					continue
				}
				err = apierrors.NewResourceExpired(fmt.Sprintf("the UID of kube-system is %q, before %q", uid, s.found))
			}
		}
		if err == nil || ctx.Err() != nil || isAnswer(err) {
			return err
		}
		s.failed(fmt.Errorf("%s %s: %w", doing, s.cfg.Resource, err))
	}
	return ctx.Err()
}

// failed notes that the server is not followed, and why.
func (s *Source[Kind, Obj]) failed(err error) {
	s.failures++
	s.pause = s.delay(err)
	s.cfg.Sink.Disconnected(err)
}

// delay returns how long to wait before the server is asked again: at random, so that those who have lost a server do not
// come back together, and after the time that the server has asked for.
func (s *Source[Kind, Obj]) delay(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return s.backoff.Delay(s.failures) + time.Duration(seconds)*time.Second
}

// wait waits until it is time to ask the server. The end of a watch is no news, unless two in a row were early or silent. If
// both were silent, or a list, what comes may be lost on the way: with errSilent the kind is listed, or in another way.
func (s *Source[Kind, Obj]) wait(ctx context.Context) error {
	if w := s.stream; w != nil {
		s.stream = nil
		w.Stop()
		if w.wait != nil {
			s.waits = append(s.waits, w.wait)
		}
		if len(s.wants.Dirty) > 0 {
			s.write()
		}
		silent := w.err == errSilent
		if s.failures++; !w.early && !silent {
			s.failures = 1 // it has lasted
		}
		if w.run.Err() != nil || w.wait != nil {
			s.failures = 0 // the source has ended it
		} else if s.pause = s.delay(w.err); s.failures > 1 || silent && w.lists {
			if !silent || w.lists || s.bookmarks {
				s.cfg.Sink.Disconnected(fmt.Errorf("watching %s: %w", s.cfg.Resource, cmp.Or(w.err, errors.New("it ends too early"))))
			}
			if silent {
				s.failures = 0
				return errSilent
			}
		}
	}
	select {
	case <-time.After(s.pause):
	case <-ctx.Done():
	}
	s.pause = 0
	return ctx.Err()
}

// identify returns the UID of the cluster that answers, empty if it may not be read.
func (s *Source[Kind, Obj]) identify(ctx context.Context) (uid string, err error) {
	uid, err = s.server.cluster(ctx)
	if s.unnamed = err; err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return uid, nil
	}
	return "", fmt.Errorf("the namespace kube-system: %w", err)
}

// isBehind reports whether a version of the server is before the newest one that was seen.
func (s *Source[Kind, Obj]) isBehind(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, s.version)
	return err == nil && order < 0
}

// stream is a watch that reads ahead, so that what comes together is written together. Its errors are its end: then the
// Reflector goes on at the version where it was. Only if the server no longer has that, the Reflector gets the error.
type stream[Kind object] struct {
	watch.Interface                 // of the server
	run             context.Context // of Run
	ctx             context.Context // of the watch
	cancel          context.CancelFunc
	// events is closed at the end. After that err is why, nil if it was not said. lists reports whether it is a list that is
	// not through, and early whether it has ended at once after that. wait is answered after the next list; nil if none is.
	events       chan watch.Event
	err          error
	lists, early bool
	wait         chan<- error
}

// pass passes on the events of the server until they end. It takes a call of Loaded, unless the list is not through, and
// calls follows when the watch has not ended at once.
func (x *stream[Kind]) pass(lists <-chan chan<- error, follows func()) {
	defer close(x.events)
	defer x.cancel()
	late := time.NewTimer(silence)
	defer late.Stop()
	begun := time.NewTimer(atOnce)
	defer begun.Stop()
	for ; x.err == nil; late.Reset(silence) {
		var event watch.Event
		asked := lists
		if x.lists {
			asked = nil
		}
		select {
		case event = <-x.Interface.ResultChan():
		case x.wait = <-asked:
			event = watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("Loaded lists").ErrStatus}
		case <-late.C:
			x.err = errSilent
		case <-begun.C:
			x.early = x.lists
			follows()
			continue
		case <-x.ctx.Done():
		}
		if event.Type == watch.Error {
			x.err = apierrors.FromObject(event.Object)
		}
		if event.Type == "" || x.err != nil && !isExpired(x.err) {
			return
		}
		if x.err == nil && begun.Stop() {
			follows()
		}
		if x.lists && event.Type == watch.Bookmark {
			x.lists = false // it is through
			begun.Reset(atOnce)
		}
		select {
		case x.events <- event:
		case <-x.ctx.Done():
		}
	}
}

func (x *stream[Kind]) ResultChan() <-chan watch.Event { return x.events }

// Stop ends the stream. It may have ended by itself.
func (x *stream[Kind]) Stop() {
	x.cancel()
	for range x.events { // until it is closed
	}
}
