// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"slices"
	"sync"

	"github.com/cilium/hive/cell"
)

// Health records what is reported to it, for Health of a configuration. Each scope of it is a Health
// of its own: a reconciler reports to the scopes "reconcile" and "refresh", and one with a name to
// "reconcile-" and "refresh-" and the name. The zero value is ready for use. Safe from any
// goroutine.
type Health struct {
	mu      sync.Mutex
	level   cell.Level
	message string
	err     error
	history []string
	scopes  map[string]*Health
}

var _ cell.Health = (*Health)(nil)

// OK implements [cell.Health].
func (h *Health) OK(message string) { h.report(cell.StatusOK, message, nil) }

// Stopped implements [cell.Health].
func (h *Health) Stopped(message string) { h.report(cell.StatusStopped, message, nil) }

// Degraded implements [cell.Health].
func (h *Health) Degraded(message string, err error) { h.report(cell.StatusDegraded, message, err) }

// Close implements [cell.Health]. What was recorded stays.
func (h *Health) Close() {}

// NewScope implements [cell.Health], with what [Health.Scope] returns.
func (h *Health) NewScope(name string) cell.Health { return h.Scope(name) }

// Scope returns the Health of a scope: the same one for a name at any time, also before anything is
// reported to it.
func (h *Health) Scope(name string) *Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.scopes[name] == nil {
		if h.scopes == nil {
			h.scopes = map[string]*Health{}
		}
		h.scopes[name] = &Health{}
	}
	return h.scopes[name]
}

func (h *Health) report(level cell.Level, message string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.level, h.message, h.err = level, message, err
	h.history = append(h.history, string(level)+" "+message)
}

// Now returns what was reported last; the level is empty if that is nothing. The error is nil
// unless the level is [cell.StatusDegraded].
func (h *Health) Now() (level cell.Level, message string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.level, h.message, h.err
}

// History returns level and message of all that was reported, such as "OK OK, 3 object(s)", the
// oldest first.
func (h *Health) History() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.history)
}
