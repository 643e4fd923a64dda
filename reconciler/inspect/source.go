// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// Source is what fills a table from elsewhere, without the type of its objects: each source.Sink is one. All methods
// are safe from any goroutine.
type Source interface {
	// Input returns the name of the table, a slash, and the name of the source, as in "routes/etcd".
	Input() string
	// Snapshot returns the state of the source.
	Snapshot() SourceSnapshot
	// Approve carries out the deletions that are held, if they are still exactly the set with this name, as in
	// [HeldDeletions].Set. It returns the number of rows that it deleted. It is an error if nothing is held, or
	// another set: the error names that.
	Approve(ctx context.Context, set string) (int, error)
	// Loaded waits until what the source has now is in the table, and returns an error if it cannot be, such as of a
	// file that does not parse. It returns at once for a source that cannot tell what it has.
	Loaded(ctx context.Context) error
}

// SourceSnapshot is the state of a source.
type SourceSnapshot struct {
	// Name is [Source].Input, Table the name of the table.
	Name  string `json:"name"`
	Table string `json:"table"`
	// Connected reports whether the source is followed, Since is the time since when it is, or is not, and Error is
	// why not.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`
	Error     string    `json:"error,omitempty"`
	// LastEvent is the time of the last list or change; zero if there was none.
	LastEvent time.Time `json:"last_event,omitzero"`
	// Input is the revision of the source that the table includes, and Output is the revision of the table that
	// includes it.
	Input  uint64 `json:"input"`
	Output uint64 `json:"output"`
	// Rows is the number of rows of the source, and Rejected that of what is in error. Problems are the first of these
	// errors, and what is held.
	Rows     int      `json:"rows"`
	Rejected int      `json:"rejected"`
	Problems []string `json:"problems,omitempty"`
	// Held are the deletions that wait for an approval; nil if there are none.
	Held *HeldDeletions `json:"held,omitempty"`
	// Running describes a function of the program that runs for long; empty if there is none.
	Running string `json:"running,omitempty"`
}

// HeldDeletions are deletions that are held because they are too many (source.Config.MaxDeletions).
type HeldDeletions struct {
	// Set names exactly this set of rows.
	Set string `json:"set"`
	// Rows is their number, of so many rows of the source when they were held first, at Since.
	Rows  int       `json:"rows"`
	Of    int       `json:"of"`
	Since time.Time `json:"since"`
	// Examples are the first keys.
	Examples []string `json:"examples"`
}

// Report returns the state for people to read: the commands print it, and the page shows it. Times have their distance
// from at.
func (s SourceSnapshot) Report(at time.Time) text.Report {
	_, kind := s.summary()
	r := text.Report{Lead: text.Value{Text: text.Plain(s.Name) + ": " + s.Summary(), Kind: kind}}
	connected := "not since "
	if s.Connected {
		connected = "since "
	}
	r.Field("connected", text.Value{Text: connected + text.When(s.Since, at)})
	if s.Error != "" {
		r.Field("error", text.Code(s.Error))
	}
	r.Field("last event", text.Time(s.LastEvent, at))
	r.Field("rows", text.Count(s.Rows))
	r.Field("rejected", text.Alarm(s.Rejected, text.KindBad))
	r.Field("input", text.Value{Text: fmt.Sprintf("%d, included from revision %d of the table on", s.Input, s.Output)})
	if s.Running != "" {
		r.Field("running", text.Value{Text: text.Printable(s.Running), Kind: text.KindWait})
	}
	for _, problem := range s.Problems {
		r.Field("problem", text.Value{Text: text.Printable(problem), Kind: text.KindBad})
	}
	if s.Held != nil {
		r.Field("held", text.Value{Text: fmt.Sprintf("%d of %d rows since %s, set %s",
			s.Held.Rows, s.Held.Of, text.When(s.Held.Since, at), text.Plain(s.Held.Set)), Kind: text.KindHeld})
		t := text.Table{ID: "held", Caption: "First rows whose deletion is held", Columns: []string{"Key"}}
		for _, key := range s.Held.Examples {
			t.Add(text.Code(key))
		}
		r.Tables = []text.Table{t}
	}
	return r
}

// Summary returns one line, without a newline: what is wrong, or that all rows are in the table.
func (s SourceSnapshot) Summary() string {
	summary, _ := s.summary()
	return summary
}

func (s *SourceSnapshot) summary() (string, text.Kind) {
	switch {
	case s.Held != nil:
		return fmt.Sprintf("%d deletion(s) await approval", s.Held.Rows), text.KindBad
	case s.Rejected > 0:
		return fmt.Sprintf("%d rejected", s.Rejected), text.KindBad
	case !s.Connected:
		return "not connected", text.KindWait
	case s.Input == 0:
		return "no full list yet", text.KindWait
	}
	return fmt.Sprintf("all %d rows are in the table", s.Rows), text.KindGood
}

// AddSource adds a source, unless it is there already. A source.Sink whose configuration has the registry adds itself,
// and removes itself when it is closed.
func (r *Registry) AddSource(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.sources, s) {
		r.sources = append(r.sources, s)
	}
}

// RemoveSource removes a source. It does nothing if the source is not there.
func (r *Registry) RemoveSource(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.sources, s); at >= 0 {
		r.sources = slices.Delete(r.sources, at, at+1)
	}
}

// Sources returns the sources in the order of their names.
func (r *Registry) Sources() []Source {
	r.mu.Lock()
	all := slices.Clone(r.sources)
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Source) int { return cmp.Compare(a.Input(), b.Input()) })
	return all
}
