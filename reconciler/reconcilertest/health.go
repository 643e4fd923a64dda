// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"slices"
	"sync"

	"github.com/cilium/hive/cell"
)

// Health records the health that reconcilers report: set it in Config.Health. Each scope is a Health
// of its own. A reconciler reports to the scopes "reconcile" and "refresh", with "-" and its name
// appended if it has one. The zero value is ready for use. Safe from any goroutine.
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

// Close implements [cell.Health]. The records remain.
func (h *Health) Close() {}

// NewScope implements [cell.Health]: it returns the same as [Health.Scope].
func (h *Health) NewScope(name string) cell.Health { return h.Scope(name) }

// Scope returns the Health of a scope. It always returns the same one for a name, also before
// something is reported to it.
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

// Now returns the last report; the level is empty if there is none. The error is nil unless the level
// is [cell.StatusDegraded].
func (h *Health) Now() (level cell.Level, message string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.level, h.message, h.err
}

// History returns the level and the message of each report, such as "OK OK, 3 object(s)", the oldest
// first.
func (h *Health) History() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.history)
}
