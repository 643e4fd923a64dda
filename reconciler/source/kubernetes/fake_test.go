// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

// fakeServer is an API server with one kind in memory. What is wrong with it is a function of the test.
type fakeServer struct {
	mu      sync.Mutex
	uid     string
	at      uint64
	objects map[string]*corev1.ConfigMap
	history []watch.Event // since compacted
	// compacted is the version up to which there is no history.
	compacted uint64
	watches   map[*fakeWatch]struct{}
	// fail is asked before each request, "cluster", "version", "list", "continue", "stream" or "watch"; nil for no error.
	// hang may wait before that, with the lock unlocked, until the request ends; nil does not.
	fail func(what string) error
	hang func(ctx context.Context, what string)
	// slow is for how long each object of a stream is held back. silent reports whether streams and watches say nothing, and
	// hidden whether watches do.
	slow           time.Duration
	silent, hidden bool
	// created is when each object is made, if it is not zero, and versions the version of each list, if it is not nil.
	created  metav1.Time
	versions *string
	// asked are the requests, with their times.
	asked []asked
}

type asked struct {
	what string
	at   time.Time
	opts metav1.ListOptions
}

func newFakeServer(uid string) *fakeServer {
	return &fakeServer{uid: uid, at: 1, objects: map[string]*corev1.ConfigMap{}, watches: map[*fakeWatch]struct{}{}}
}

// put makes or changes an object: data is its rows, as in "a=1,b=2".
func (f *fakeServer) put(name, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at++
	event, created := watch.Modified, metav1.Time{}
	if old := f.objects[name]; old != nil {
		created = old.CreationTimestamp
	} else {
		event, created = watch.Added, metav1.Unix(int64(f.at), 0)
		if !f.created.IsZero() {
			created = f.created
		}
	}
	o := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: fmt.Sprint(f.at), CreationTimestamp: created},
		Data:       map[string]string{"rows": data},
	}
	f.objects[name] = o
	f.tell(watch.Event{Type: event, Object: o})
}

func (f *fakeServer) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.objects[name]
	if o == nil {
		return
	}
	f.at++
	gone := o.DeepCopy()
	gone.ResourceVersion = fmt.Sprint(f.at)
	delete(f.objects, name)
	f.tell(watch.Event{Type: watch.Deleted, Object: gone})
}

// other changes what is not of the kind.
func (f *fakeServer) other() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at++
}

// bad returns the names of the objects for which the function panics.
func (f *fakeServer) bad() map[string]*corev1.ConfigMap {
	_, objects := f.snapshot()
	maps.DeleteFunc(objects, func(_ string, o *corev1.ConfigMap) bool { return o.Data["rows"] != "panic" })
	return objects
}

// now returns the version.
func (f *fakeServer) now() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *fakeServer) tell(e watch.Event) {
	f.history = append(f.history, e)
	for w := range f.watches {
		if !w.lists {
			w.send(e)
		}
	}
}

// bookmark sends a bookmark to all watches.
func (f *fakeServer) bookmark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.send(f.bookmarkAt(false))
	}
}

func (f *fakeServer) bookmarkAt(initial bool) watch.Event {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: f.listed()}}
	if initial {
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return watch.Event{Type: watch.Bookmark, Object: o}
}

// listed is the version of a list.
func (f *fakeServer) listed() string {
	if f.versions != nil {
		return *f.versions
	}
	return fmt.Sprint(f.at)
}

// compact forgets the history.
func (f *fakeServer) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.history, f.compacted = nil, f.at
}

// cut ends all watches, with an event if its type is not empty.
func (f *fakeServer) cut(last watch.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		if last.Type != "" {
			w.send(last)
		}
		w.end()
	}
}

// snapshot and restore are a backup.
func (f *fakeServer) snapshot() (at uint64, objects map[string]*corev1.ConfigMap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at, maps.Clone(f.objects)
}

func (f *fakeServer) restore(at uint64, objects map[string]*corev1.ConfigMap) {
	f.cut(watch.Event{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.objects, f.history, f.compacted = at, maps.Clone(objects), nil, at
}

// replace puts another cluster in the place of this one.
func (f *fakeServer) replace(uid string, at uint64) {
	f.restore(at, nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uid, f.objects = uid, map[string]*corev1.ConfigMap{}
}

func (f *fakeServer) setFail(fail func(string) error) { f.set(func() { f.fail = fail }) }

func (f *fakeServer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// times returns when something was asked.
func (f *fakeServer) times(what string) (times []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if a.what == what {
			times = append(times, a.at)
		}
	}
	return times
}

// ask notes a request, and returns its error. The caller unlocks.
func (f *fakeServer) ask(ctx context.Context, what string, opts metav1.ListOptions) error {
	f.mu.Lock()
	f.asked = append(f.asked, asked{what, time.Now(), opts})
	if f.hang != nil {
		f.hang(ctx, what)
	}
	if f.fail != nil {
		if err := f.fail(what); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fakeServer) cluster(ctx context.Context) (string, error) {
	defer f.mu.Unlock()
	if err := f.ask(ctx, "cluster", metav1.ListOptions{}); err != nil {
		return "", err
	}
	return f.uid, nil
}

func (f *fakeServer) version(ctx context.Context) (string, error) {
	defer f.mu.Unlock()
	if err := f.ask(ctx, "version", metav1.ListOptions{}); err != nil {
		return "", err
	}
	return f.listed(), nil
}

// pageSize is the number of objects on a page of a list.
const pageSize = 3

func (f *fakeServer) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	what := "list"
	if opts.Continue != "" {
		what = "continue"
	}
	defer f.mu.Unlock()
	if err := f.ask(ctx, what, opts); err != nil {
		return nil, err
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: f.listed()}}
	// A token is the version and the name after which the page begins, as long as nothing has changed since.
	version, after, _ := strings.Cut(opts.Continue, " ")
	if version != "" && version != list.ResourceVersion {
		return nil, apierrors.NewResourceExpired("the provided continue parameter is too old")
	}
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if name <= after {
			continue
		}
		if opts.Limit > 0 && len(list.Items) == pageSize {
			list.Continue = list.ResourceVersion + " " + list.Items[pageSize-1].Name
			break
		}
		list.Items = append(list.Items, *f.objects[name].DeepCopy())
	}
	return list, nil
}

func (f *fakeServer) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	what := "watch"
	if opts.SendInitialEvents != nil {
		what = "stream"
	}
	defer f.mu.Unlock()
	if err := f.ask(ctx, what, opts); err != nil {
		return nil, err
	}
	w := &fakeWatch{server: f, events: make(chan watch.Event, 10_000), closed: make(chan struct{})}
	if f.silent || f.hidden && what == "watch" {
		return w, nil
	}
	if what == "stream" && f.slow > 0 {
		w.lists = true
		go w.list(f.slow, f.at, f.bookmarkAt(true), slices.Collect(maps.Values(f.objects)))
	} else if what == "stream" {
		for _, name := range slices.Sorted(maps.Keys(f.objects)) {
			w.send(watch.Event{Type: watch.Added, Object: f.objects[name]})
		}
		w.send(f.bookmarkAt(true))
	} else {
		from, err := strconv.ParseUint(opts.ResourceVersion, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if from < f.compacted {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, f.compacted))
		}
		for _, e := range f.history {
			if versionOf(e.Object) > from {
				w.send(e)
			}
		}
	}
	f.watches[w] = struct{}{}
	return w, nil
}

func versionOf(o runtime.Object) uint64 {
	at, _ := strconv.ParseUint(o.(*corev1.ConfigMap).ResourceVersion, 10, 64)
	return at
}

// fakeWatch is a watch of a fakeServer, whose lock it uses.
type fakeWatch struct {
	server *fakeServer
	events chan watch.Event
	ended  bool
	// lists reports whether the list is sent slowly, and no event is yet; closed is closed at the end.
	lists  bool
	closed chan struct{}
}

// list sends a list slowly, and then what has changed since.
func (w *fakeWatch) list(slow time.Duration, at uint64, last watch.Event, objects []*corev1.ConfigMap) {
	for _, o := range objects {
		select {
		case <-time.After(slow):
		case <-w.closed:
		}
		w.server.mu.Lock()
		w.send(watch.Event{Type: watch.Added, Object: o})
		w.server.mu.Unlock()
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.lists = false
	w.send(last)
	for _, e := range w.server.history {
		if versionOf(e.Object) > at {
			w.send(e)
		}
	}
}

func (w *fakeWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *fakeWatch) Stop() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end()
}

func (w *fakeWatch) send(e watch.Event) {
	e.Object = e.Object.DeepCopyObject()
	if !w.ended {
		w.events <- e
	}
}

func (w *fakeWatch) end() {
	if !w.ended {
		w.ended = true
		close(w.events)
		close(w.closed)
	}
	delete(w.server.watches, w)
}

// refused is the error of a server that is away, throttled and forbidden those of one that refuses.
var (
	errRefused     = errors.New("dial tcp 192.0.2.1:6443: connect: connection refused")
	errForbidden   = apierrors.NewForbidden(configMaps, "", errors.New(`the user "agent" cannot list resource "configmaps" in API group ""`))
	errUnnamed     = apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("no right"))
	errNoNamespace = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "kube-system")
	errStream      = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
)

// always returns a function that fails what is named, or everything.
func always(err error, what ...string) func(string) error {
	return func(asked string) error {
		if len(what) == 0 || slices.Contains(what, asked) {
			return err
		}
		return nil
	}
}
