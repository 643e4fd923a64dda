// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package health collects the health reports of the parts of a program in one place.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/hive/cell"
)

// Report is the latest report of a part.
type Report struct {
	// Scope is the part's name; dots separate the names of nested parts.
	Scope   string
	Level   cell.Level
	Message string

	// Err is nil unless the Level is Degraded.
	Err error
}

// String returns "scope: message", followed by a colon and the error if there is one.
func (r Report) String() string {
	if r.Err == nil {
		return r.Scope + ": " + r.Message
	}
	return fmt.Sprintf("%s: %s: %v", r.Scope, r.Message, r.Err)
}

// Registry holds the latest report of every part. It is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	reports map[string]Report
}

// New returns a Registry without reports, and the [cell.Health] that writes to it.
func New() (*Registry, cell.Health) {
	r := &Registry{reports: make(map[string]Report)}
	return r, &scope{registry: r}
}

// Degraded returns the reports of degraded parts, in the order of the scopes.
func (r *Registry) Degraded() (reports []Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, report := range r.reports {
		if report.Level == cell.StatusDegraded {
			reports = append(reports, report)
		}
	}
	slices.SortFunc(reports, func(a, b Report) int { return cmp.Compare(a.Scope, b.Scope) })
	return reports
}

// scope is the cell.Health of one part.
type scope struct {
	registry *Registry
	name     string
}

func (s *scope) report(level cell.Level, message string, err error) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.registry.reports[s.name] = Report{Scope: s.name, Level: level, Message: message, Err: err}
}

func (s *scope) OK(message string)                  { s.report(cell.StatusOK, message, nil) }
func (s *scope) Stopped(reason string)              { s.report(cell.StatusStopped, reason, nil) }
func (s *scope) Degraded(message string, err error) { s.report(cell.StatusDegraded, message, err) }

func (s *scope) NewScope(name string) cell.Health {
	if s.name != "" {
		name = s.name + "." + name
	}
	return &scope{registry: s.registry, name: name}
}

func (s *scope) Close() {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	delete(s.registry.reports, s.name)
}
