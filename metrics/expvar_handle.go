// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"expvar"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
)

// Bind returns a handle whose methods neither allocate nor look up anything after their first call.
// The handle is safe for concurrent use. All handles of a reconciler, and the methods of m, use the
// same variables, so no figure is lost.
func (m *ExpVar) Bind(moduleID cell.FullModuleID, name string) Handle {
	key := key(moduleID, name)
	return &expVarHandle{
		updateDuration: boundFloat{vars: m.ReconciliationDurationVar, key: key + "/" + OpUpdate},
		deleteDuration: boundFloat{vars: m.ReconciliationDurationVar, key: key + "/" + OpDelete},
		rounds:         boundInt{vars: m.ReconciliationCountVar, key: key},
		totalErrors:    boundInt{vars: m.ReconciliationTotalErrorsVar, key: key},
		currentErrors:  boundInt{vars: m.ReconciliationCurrentErrorsVar, key: key},

		prunes:             boundInt{vars: m.PruneCountVar, key: key},
		pruneDuration:      boundFloat{vars: m.PruneDurationVar, key: key},
		pruneTotalErrors:   boundInt{vars: m.PruneTotalErrorsVar, key: key},
		pruneCurrentErrors: boundInt{vars: m.PruneCurrentErrorsVar, key: key},
	}
}

// expVarHandle holds the variables of one reconciler.
type expVarHandle struct {
	updateDuration, deleteDuration     boundFloat
	rounds, totalErrors, currentErrors boundInt

	pruneDuration                                boundFloat
	prunes, pruneTotalErrors, pruneCurrentErrors boundInt
}

func (h *expVarHandle) UpdateDuration(duration time.Duration) {
	h.updateDuration.get().Add(duration.Seconds())
}

func (h *expVarHandle) DeleteDuration(duration time.Duration) {
	h.deleteDuration.get().Add(duration.Seconds())
}

func (h *expVarHandle) ReconciliationErrors(new, current int) {
	h.rounds.get().Add(1)
	h.totalErrors.get().Add(int64(new))
	h.currentErrors.get().Set(int64(current))
}

func (h *expVarHandle) PruneError(err error) {
	h.prunes.get().Add(1)
	if err == nil {
		h.pruneCurrentErrors.get().Set(0)
		return
	}
	h.pruneTotalErrors.get().Add(1)
	h.pruneCurrentErrors.get().Set(1)
}

func (h *expVarHandle) PruneDuration(duration time.Duration) {
	h.pruneDuration.get().Add(duration.Seconds())
}

// boundInt is the variable with one key of a map. It is looked up, or made, at its first use: what
// a reconciler never does has no key.
type boundInt struct {
	vars  *expvar.Map
	key   string
	found atomic.Pointer[expvar.Int]
}

func (b *boundInt) get() *expvar.Int {
	if v := b.found.Load(); v != nil {
		return v
	}
	v := intVar(b.vars, b.key)
	b.found.Store(v)
	return v
}

// boundFloat is boundInt for floats.
type boundFloat struct {
	vars  *expvar.Map
	key   string
	found atomic.Pointer[expvar.Float]
}

func (b *boundFloat) get() *expvar.Float {
	if v := b.found.Load(); v != nil {
		return v
	}
	v := floatVar(b.vars, b.key)
	b.found.Store(v)
	return v
}

// intVar returns the variable with the key, and makes it if there is none. If the program has put
// something else there, the returned variable is in no map.
func intVar(vars *expvar.Map, key string) *expvar.Int {
	// If several goroutines add at once, one makes the variable and all others find it.
	vars.Add(key, 0)
	if v, ok := vars.Get(key).(*expvar.Int); ok {
		return v
	}
	return new(expvar.Int)
}

// floatVar is intVar for floats.
func floatVar(vars *expvar.Map, key string) *expvar.Float {
	vars.AddFloat(key, 0)
	if v, ok := vars.Get(key).(*expvar.Float); ok {
		return v
	}
	return new(expvar.Float)
}
