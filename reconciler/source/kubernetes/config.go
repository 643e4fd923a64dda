// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package kubernetes fills a statedb table from the objects of one kind of a Kubernetes API server.
//
// A [Source] lists and watches the kind with the Reflector of client-go. A function makes rows of each object, and a
// [source.Sink] writes those that differ. What stays in memory is the rows. Run it for as long as the program runs:
//
//   - A row is in the table when [source.State].Input has reached the resource version of its object. Bookmarks of the
//     server move Input on while the kind does not change.
//   - A watch that has ended goes on at the version where it was, after a random wait. Only if the server no longer has
//     that version, the watch has ended at once, or on two of them nothing came, not even a bookmark, the kind is listed
//     again, in pages if a list that streams is silent, too. Then only differences are written.
//   - When the API server is away, or refuses, the rows stay. The state and the health of the sink say since when and
//     why: connection refused, the verb and the resource that are forbidden, the error of TLS. The source tries again for
//     as long as it takes, and waits as long as the server asks (429 with Retry-After).
//   - An object for which the function returns an error, or panics, is a problem, and the rows of its last good version
//     stay. An object without a good version has no rows, even in a table that is initialised.
//   - Of several objects that want one row, the one that was created first has it, then the lower name. Health names the
//     others, and the next one gets the row when the first gives it up.
//   - The cluster is known by the UID of the namespace kube-system. If another one, or one that was restored, answers in
//     its place, rows that it does not have are held: it may not be filled yet. Meanwhile each change is applied, and
//     Input stays. The hold ends at a bookmark or list when no object was new for 90 s, and, unless the sink has
//     AllowEmpty, only if a row is left. In a cluster that is the same an empty list is believed. Bound what a list
//     deletes with [source.Config].MaxDeletions.
//
// # What it needs
//
// The source may list and watch the kind, and get the namespace kube-system. Without that right a server that was
// replaced is noticed only if its versions go back, health says so, and an empty list is refused unless the sink has
// AllowEmpty:
//
//	rules:
//	- {apiGroups: [""], resources: [services], verbs: [list, watch]}
//	- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
//
// # What it does not do
//
// It writes nothing to Kubernetes: use the client of the kind for that, with server-side apply. An object that does not
// decode as Kind stops the source, which says so: use a type that takes what the server has. A server that was restored is
// not noticed if it has passed the version that was seen before the source asks it again.
package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/reconciler/source"
)

// object is a pointer to a struct of a kind, such as *corev1.Service.
type object interface {
	runtime.Object
	metav1.Object
}

// Config is the configuration of a [Source] of the objects of a Kind, such as *corev1.Service.
type Config[Kind object, Obj any] struct {
	// Server is where the API server is, and who asks: as of rest.InClusterConfig, or of package clientcmd. Tokens and
	// certificates in files are read again when they change. Its Timeout is not used: it would end each watch. Required.
	Server *rest.Config
	// Scheme has Kind, and its list. Nil means that of client-go, which has all kinds of Kubernetes itself.
	Scheme *runtime.Scheme
	// Resource is the kind in URLs and in RBAC, such as "endpointslices". Empty means the plural of the kind in English.
	Resource string
	// Namespace is that of the objects. Empty means all namespaces: a source of some of them is one of all, whose Rows
	// returns no rows for the others.
	Namespace string
	// Labels and Fields select objects, such as "app=web,tier!=cache" and "metadata.name=a". Which fields there are
	// depends on the kind. Empty selects all.
	Labels, Fields string
	// Rows makes the rows of an object: none if the program does not need it. An error, a panic, a row without a primary
	// key, or two with the same makes the object a bad object: the rows of its last good version stay. The object belongs
	// to the function: rows may have parts of it, and keep in memory what they refer to. Rows is called by the goroutine
	// of Run, without a lock, when an object changes, and for each object of a list. While it runs nothing else is
	// applied: if that is for over ten seconds, the state and health of the sink name it. What it does not use of an
	// object, such as its status, writes nothing when it changes. Required.
	Rows func(Kind) ([]Obj, error)
	// Sink writes the rows into the table. It belongs to this source alone, and is not closed by it. Its health is told of
	// bad objects, too. Required.
	Sink *source.Sink[Obj]

	// Backoff bounds the random wait before the server is asked again. It doubles with each attempt that fails, up to
	// thirty times. Zero means 1 s.
	Backoff time.Duration
	// Log gets lists, and what is not applied. Nil means none.
	Log *slog.Logger
}

// complete returns the configuration with its defaults, or all that is wrong with it.
func (c Config[Kind, Obj]) complete() (Config[Kind, Obj], error) {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("Config."+field+" "+format, args...))
	}
	if c.Server == nil {
		wrong("Server", "is nil")
	}
	if _, err := labels.Parse(c.Labels); err != nil {
		wrong("Labels", "is %q: %w", c.Labels, err)
	}
	if _, err := fields.ParseSelector(c.Fields); err != nil {
		wrong("Fields", "is %q: %w", c.Fields, err)
	}
	if c.Rows == nil {
		wrong("Rows", "is nil")
	}
	if c.Sink == nil {
		wrong("Sink", "is nil")
	}
	if c.Backoff < 0 {
		wrong("Backoff", "is %s, must not be negative", c.Backoff)
	}
	c.Scheme = cmp.Or(c.Scheme, scheme.Scheme)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, errors.Join(errs...)
}
