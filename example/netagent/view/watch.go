// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package view shows the status of all objects: on a terminal as a table that is redrawn in place, elsewhere
// as a line for each change.
package view

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

// Scene is the content of a view at one moment.
type Scene struct {
	// Title and Notes are above and below the objects.
	Title string
	Notes []string
	Items []desired.Item
	Now   time.Time
}

// View shows scenes.
type View interface {
	Show(Scene) error
}

// Watcher shows the tables in a view whenever they change.
type Watcher struct {
	DB     *statedb.DB
	Tables *desired.Tables
	View   View
	Title  string

	// Notes returns additional lines for each scene.
	Notes func() []string

	// Settle is how long changes are gathered for one scene; zero means not at all.
	Settle time.Duration

	// Every is the interval of scenes without a change, which update the times; zero means never.
	Every time.Duration
}

// Run shows a scene, and another one at every change, until the context ends; then it shows the last one. It
// returns an error if the view cannot be written to.
func (w *Watcher) Run(ctx context.Context) error {
	for {
		last := ctx.Err() != nil // before the snapshot, so that the last scene is current
		snapshot, changed := w.Tables.Snapshot(w.DB.ReadTxn())
		scene := Scene{Title: w.Title, Items: snapshot.Items, Notes: w.Notes(), Now: time.Now()}
		if err := w.View.Show(scene); err != nil {
			return err
		}
		if last {
			return nil
		}
		w.wait(ctx, changed)
	}
}

// wait returns when something changed, when Every has passed, or when the context ends.
func (w *Watcher) wait(ctx context.Context, changed []<-chan struct{}) {
	if w.Every > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Every)
		defer cancel()
	}
	set := statedb.NewWatchSet()
	set.Add(changed...)
	// An error means that the context ended, which the caller checks itself.
	_, _ = set.Wait(ctx, w.Settle)
}
