// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package statefile

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a directory has to be quiet before the file is read, so
	// that an editor has the time to finish.
	settle = 50 * time.Millisecond

	// poll is how often the file is read whether or not anything was heard of it:
	// a directory can be replaced, or be on a file system that tells nothing.
	poll = 2 * time.Second
)

// watch returns a channel that tells that the file may have changed, until the context
// ends. Directories are watched, not the file: editors put another file in its place.
func watch(ctx context.Context, path string, log *slog.Logger) <-chan struct{} {
	changed := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("edits of the state file are noticed late (too low a fs.inotify.max_user_instances?)",
			"file", path, "every", poll, "error", err)
		watcher = &fsnotify.Watcher{}
	}
	go func() {
		if err == nil {
			defer func() { _ = watcher.Close() }() // nothing to be done about it
		}
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		quiet := time.NewTimer(settle)
		defer quiet.Stop()
		for {
			if err == nil {
				addDirectories(watcher, path)
			}
			select {
			case <-ctx.Done():
				return
			case <-watcher.Events:
				quiet.Reset(settle)
				continue
			case <-watcher.Errors:
				// Events were lost: look.
			case <-quiet.C:
			case <-ticker.C:
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

// addDirectories watches the directory of the file, and that of the file it is a
// symbolic link to. Watching a directory again costs little and changes nothing.
func addDirectories(watcher *fsnotify.Watcher, path string) {
	directories := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != directories[0] {
		directories = append(directories, filepath.Dir(target))
	}
	for _, directory := range directories {
		// A directory that is missing is tried again at the next poll.
		_ = watcher.Add(directory)
	}
}
