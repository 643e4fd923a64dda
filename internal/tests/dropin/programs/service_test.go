// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"strconv"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/reconciler"
)

// service is the object of most programs: a pointer type with one status.
type service struct {
	ID   uint64
	Spec string
	// Handle is the name of the service in the target. The operation sets it.
	Handle string
	Status reconciler.Status
}

func (s *service) Clone() *service {
	c := *s
	return &c
}

// SetStatus is called on a clone, which it may change.
func (s *service) SetStatus(status reconciler.Status) *service {
	s.Status = status
	return s
}

func (s *service) GetStatus() reconciler.Status { return s.Status }

func (s *service) TableHeader() []string {
	return []string{"ID", "Spec", "Handle", "Status", "Error"}
}

func (s *service) TableRow() []string {
	return []string{
		strconv.FormatUint(s.ID, 10), s.Spec, s.Handle,
		s.Status.Kind.String(), s.Status.GetError(),
	}
}

var (
	serviceByID = statedb.Index[*service, uint64]{
		Name: "id",
		FromObject: func(s *service) index.KeySet {
			return index.NewKeySet(index.Uint64(s.ID))
		},
		FromKey:    index.Uint64,
		FromString: index.Uint64String,
		Unique:     true,
	}
	// serviceByKind is an index by the kind of the status, as users write it.
	serviceByKind = statedb.Index[*service, reconciler.StatusKind]{
		Name: "status",
		FromObject: func(s *service) index.KeySet {
			return index.NewKeySet(s.Status.Kind.Key())
		},
		FromKey: reconciler.StatusKind.Key,
	}
)

func newServiceTable(db *statedb.DB) (statedb.RWTable[*service], error) {
	return statedb.NewTable(db, "services", serviceByID, serviceByKind)
}

// wanted returns a service with a pending status.
func wanted(id uint64, spec string) *service {
	return &service{ID: id, Spec: spec, Status: reconciler.StatusPending()}
}
