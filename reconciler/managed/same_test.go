// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/reconciler"
)

// statusRow is a row for any way to set its status.
type statusRow struct {
	Meta
	Size   int
	Status reconciler.Status
}

// A pass detects its own changes and leaves the status alone, however the program sets statuses.
func TestStatusThatAsksForAPassIsNoChange(t *testing.T) {
	for name, set := range map[string]func(*statusRow, reconciler.Status) *statusRow{
		"in place":  func(r *statusRow, s reconciler.Status) *statusRow { r.Status = s; return r },
		"on a copy": func(r *statusRow, s reconciler.Status) *statusRow { c := *r; c.Status = s; return &c },
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler[*statusRow]{
				getStatus: func(r *statusRow) reconciler.Status { return r.Status }, setStatus: set,
			}
			row := &statusRow{Size: 1, Status: reconciler.StatusDone()}
			clone := *row
			clone.Status = reconciler.StatusPending()
			asked := clone.Status
			p := &pass[*statusRow]{r: r, obj: &clone, row: row, known: true}
			assert.False(t, p.changed())
			assert.Equal(t, asked, p.obj.Status)
			p.obj.Size++
			assert.True(t, p.changed())
			assert.Equal(t, asked, p.obj.Status)
			assert.Equal(t, reconciler.StatusKindDone, row.Status.Kind)
		})
	}
}
