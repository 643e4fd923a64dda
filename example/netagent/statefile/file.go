// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package statefile keeps the tables of package desired equal to the state file and its edits. An invalid
// file changes nothing: the last good state stays in force, and the problem is logged once.
package statefile

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/example/internal/filewatch"
	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// File is a state file that was read and is valid.
type File struct {
	path  string
	data  []byte
	state config.State

	// trouble is the text of the last error, so that it is logged once.
	trouble string
}

// Open reads and checks the file. The error has the positions of the problems. It waits while the file may be half
// written, until the context ends.
func Open(ctx context.Context, path string) (*File, error) {
	f := &File{path: path}
	data, err := filewatch.Read(ctx, path, config.MaxSize+1) // one byte over the limit of a file that is too large
	if err != nil {
		return nil, err
	}
	if f.state, err = config.Parse(path, data); err != nil {
		return nil, err
	}
	f.data = data
	return f, nil
}

// Follow applies the state that the file had when it was opened, and then every new one, until the context
// ends. It is a job.
func (f *File) Follow(ctx context.Context, health cell.Health, store *desired.Store, log *slog.Logger) error {
	f.apply(health, store, log)
	changed := filewatch.Watch(ctx, f.path, log)
	for {
		f.reload(ctx, health, store, log)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// reload applies the file's state if the file has changed.
func (f *File) reload(ctx context.Context, health cell.Health, store *desired.Store, log *slog.Logger) {
	data, err := filewatch.Read(ctx, f.path, config.MaxSize+1)
	if ctx.Err() != nil || err == nil && bytes.Equal(data, f.data) && f.trouble == "" {
		return
	}
	var state config.State
	if err == nil {
		state, err = config.Parse(f.path, data)
	}
	if err != nil {
		f.complain(err, health, log)
		return
	}
	f.data, f.state, f.trouble = data, state, ""
	f.apply(health, store, log)
}

func (f *File) apply(health cell.Health, store *desired.Store, log *slog.Logger) {
	store.Apply(f.state)
	health.OK("applied")
	log.Info("state file applied", "file", f.path)
}

// complain logs an error, unless it is the same as the last one.
func (f *File) complain(err error, health cell.Health, log *slog.Logger) {
	if err.Error() == f.trouble {
		return
	}
	f.trouble = err.Error()
	health.Degraded("the state file is broken, its last good state stays in force", err)
	log.Error("state file not applied, the last good state stays in force", "error", err)
}
