// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/cilium/hive/cell"
)

// healthReports is a health that keeps the last report.
type healthReports struct {
	mu   sync.Mutex
	last string
}

func (h *healthReports) say(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = text
}

// says returns an error if the last report does not contain a text.
func (h *healthReports) says(text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !strings.Contains(h.last, text) {
		return fmt.Errorf("health is %q, wanted %q", h.last, text)
	}
	return nil
}

func (h *healthReports) OK(status string)            { h.say("OK: " + status) }
func (h *healthReports) Stopped(reason string)       { h.say("stopped: " + reason) }
func (h *healthReports) NewScope(string) cell.Health { return h }
func (h *healthReports) Close()                      {}

func (h *healthReports) Degraded(reason string, err error) {
	h.say(fmt.Sprintf("degraded: %s: %v", reason, err))
}

// listLog is a log that keeps why the source has listed the prefix.
type listLog struct {
	mu  sync.Mutex
	why []string
}

func (l *listLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *listLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *listLog) WithGroup(string) slog.Handler            { return l }

func (l *listLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "Listing" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "why" {
			l.why = append(l.why, a.Value.String())
		}
		return true
	})
	return nil
}

// reasons returns why the prefix was listed, from the second time on.
func (l *listLog) reasons() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.why[min(1, len(l.why)):]...)
}
