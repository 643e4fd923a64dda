// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package filewatch says when a file may have changed, and reads it when it is whole.
package filewatch

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a directory must be quiet before the file is read, so that an editor can finish.
	settle = 50 * time.Millisecond

	// poll is the interval at which the file is read without an event: a directory can be replaced, or be on
	// a file system without events.
	poll = 2 * time.Second

	// skips is how many polls in a row are skipped while the directory is not quiet: the file may be half written.
	skips = 5
)

// Watch returns a channel that signals that the file may have changed, until the context ends. It watches
// directories, not the file: editors replace the file.
func Watch(ctx context.Context, path string, log *slog.Logger) <-chan struct{} {
	changed := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("edits of a file are noticed late (too low a fs.inotify.max_user_instances?)",
			"file", path, "every", poll, "error", err)
		watcher = &fsnotify.Watcher{}
	}
	go func() {
		if err == nil {
			defer func() { _ = watcher.Close() }() // no way to handle it
		}
		follow(ctx, watcher.Events, watcher.Errors, changed, func() {
			if err == nil {
				addDirectories(watcher, path)
			}
		})
	}()
	return changed
}

// follow signals after events, and every now and then, until the context ends. It calls look before it waits for an event.
func follow(
	ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, changed chan<- struct{}, look func(),
) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	changing, skipped := false, 0
	for {
		look()
		select {
		case <-ctx.Done():
			return
		case <-events:
			changing = true
			quiet.Reset(settle)
			continue
		case <-errs:
			// Events were lost: read the file.
		case <-quiet.C:
			changing = false
		case <-ticker.C:
			if changing && skipped < skips {
				skipped++
				continue
			}
		}
		skipped = 0
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// addDirectories watches the directory of the file and, for a symbolic link, that of its target. Watching a
// directory again is cheap and changes nothing.
func addDirectories(watcher *fsnotify.Watcher, path string) {
	directories := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != directories[0] {
		directories = append(directories, filepath.Dir(target))
	}
	for _, directory := range directories {
		// A missing directory is tried again at the next poll.
		_ = watcher.Add(directory)
	}
}
