// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"time"

	"github.com/cilium/hive/cell"
)

type joined []Metrics

func (j joined) ReconciliationDuration(moduleID cell.FullModuleID, name, operation string, duration time.Duration) {
	for _, m := range j {
		m.ReconciliationDuration(moduleID, name, operation, duration)
	}
}

func (j joined) ReconciliationErrors(moduleID cell.FullModuleID, name string, new, current int) {
	for _, m := range j {
		m.ReconciliationErrors(moduleID, name, new, current)
	}
}

func (j joined) PruneError(moduleID cell.FullModuleID, name string, err error) {
	for _, m := range j {
		m.PruneError(moduleID, name, err)
	}
}

func (j joined) PruneDuration(moduleID cell.FullModuleID, name string, duration time.Duration) {
	for _, m := range j {
		m.PruneDuration(moduleID, name, duration)
	}
}

func (j joined) Attach(moduleID cell.FullModuleID, name string, source Source) (detach func()) {
	detaches := make([]func(), len(j))
	for i, m := range j {
		detaches[i] = Attach(m, moduleID, name, source)
	}
	return func() {
		for _, detach := range detaches {
			detach()
		}
	}
}

func (j joined) Bind(moduleID cell.FullModuleID, name string) Handle {
	var handles joinedHandle
	for _, m := range j {
		// A Metrics that drops all figures must not cost a call for each.
		if h := Bind(m, moduleID, name); h != (discardHandle{}) {
			handles = append(handles, h)
		}
	}
	switch len(handles) {
	case 0:
		return discardHandle{}
	case 1:
		return handles[0]
	}
	return handles
}

type joinedHandle []Handle

func (j joinedHandle) UpdateDuration(duration time.Duration) {
	for _, h := range j {
		h.UpdateDuration(duration)
	}
}

func (j joinedHandle) DeleteDuration(duration time.Duration) {
	for _, h := range j {
		h.DeleteDuration(duration)
	}
}

func (j joinedHandle) ReconciliationErrors(new, current int) {
	for _, h := range j {
		h.ReconciliationErrors(new, current)
	}
}

func (j joinedHandle) PruneError(err error) {
	for _, h := range j {
		h.PruneError(err)
	}
}

func (j joinedHandle) PruneDuration(duration time.Duration) {
	for _, h := range j {
		h.PruneDuration(duration)
	}
}
