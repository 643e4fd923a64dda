// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"strconv"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// Tunnel is a row: a desired tunnel, and its state at the broker.
type Tunnel struct {
	managed.Meta `yaml:",inline"`

	// Settings are the desired settings.
	api.Settings `yaml:",inline"`

	// ID and Address are set by the broker, and empty until they are known.
	ID      string `json:"id,omitempty" yaml:"id,omitempty"`
	Address string `json:"address,omitempty" yaml:"address,omitempty"`

	Status reconciler.Status `json:"status" yaml:"status"`
}

// Clone returns a copy that can be changed without changing the row.
func (t *Tunnel) Clone() *Tunnel { c := *t; return &c }

// SetStatus sets the status of a clone, and returns it.
func (t *Tunnel) SetStatus(s reconciler.Status) *Tunnel { t.Status = s; return t }

// GetStatus returns the status.
func (t *Tunnel) GetStatus() reconciler.Status { return t.Status }

// TableHeader implements [statedb.TableWritable].
func (t *Tunnel) TableHeader() []string {
	return []string{"Name", "Remote", "Bandwidth", "ID", "Address", "Ready", "Synced", "Status"}
}

// TableRow implements [statedb.TableWritable].
func (t *Tunnel) TableRow() []string {
	return []string{
		t.Name, t.Remote, strconv.Itoa(t.Bandwidth), t.ID, t.Address,
		string(t.GetCondition(managed.TypeReady).Status), string(t.GetCondition(managed.TypeSynced).Status),
		t.Status.String(),
	}
}

var nameIndex = statedb.Index[*Tunnel, string]{
	Name:       "name",
	FromObject: func(t *Tunnel) index.KeySet { return index.NewKeySet(index.String(t.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

func newTable(db *statedb.DB) (statedb.RWTable[*Tunnel], error) {
	return statedb.NewTable(db, "tunnels", nameIndex)
}
