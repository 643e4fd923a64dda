// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"expvar"
	"time"

	"github.com/cilium/hive/cell"
)

// ExpVar is a [Metrics] that keeps its figures in expvar maps. Each map has one variable for each
// reconciler; its key is the module ID, followed by "/" and the name if the reconciler has one:
// "agent.routes", "agent.routes/v6". A variable appears with its first figure.
//
// ExpVar is safe for concurrent use. Only read the maps: a handle keeps the variables that it has
// found, even if they are deleted or replaced.
type ExpVar struct {
	root *expvar.Map

	// ReconciliationCountVar counts the calls of [Metrics.ReconciliationErrors].
	ReconciliationCountVar *expvar.Map

	// ReconciliationDurationVar adds up the time spent in operations, in seconds. Its
	// keys end in "/update" or "/delete".
	ReconciliationDurationVar *expvar.Map

	// ReconciliationTotalErrorsVar counts failed operations.
	ReconciliationTotalErrorsVar *expvar.Map

	// ReconciliationCurrentErrorsVar is the number of objects that failed as of the last round.
	ReconciliationCurrentErrorsVar *expvar.Map

	// PruneCountVar counts prunes, failed ones included.
	PruneCountVar *expvar.Map

	// PruneDurationVar adds up the time spent pruning, in seconds.
	PruneDurationVar *expvar.Map

	// PruneTotalErrorsVar counts failed prunes.
	PruneTotalErrorsVar *expvar.Map

	// PruneCurrentErrorsVar is 1 if the last prune failed, else 0.
	PruneCurrentErrorsVar *expvar.Map

	// FiguresVar holds the [Figures] of each reconciler as a JSON object, made when it is read: see
	// [ExpVar.Attach].
	FiguresVar *expvar.Map
}

var (
	_ Metrics  = (*ExpVar)(nil)
	_ Binder   = (*ExpVar)(nil)
	_ Attacher = (*ExpVar)(nil)
)

// NewExpVar returns an ExpVar whose variables are not published: read them through its fields and
// [ExpVar.Map].
func NewExpVar() *ExpVar {
	m := &ExpVar{root: new(expvar.Map), FiguresVar: new(expvar.Map)}
	for _, v := range m.variables() {
		*v.field = new(expvar.Map)
		m.root.Set(v.name, *v.field)
	}
	return m
}

// Map returns a map of the eight maps with counts and sums, under the names by which
// [PublishExpVar] publishes them. Publish it under another name, or write its String, which is
// JSON. FiguresVar is not in it: programs written for those eight maps expect numbers.
func (m *ExpVar) Map() *expvar.Map {
	return m.root
}

// variable is one of the maps of an ExpVar.
type variable struct {
	name  string
	field **expvar.Map
}

// figuresName is the published name of FiguresVar.
const figuresName = "reconciliation_figures"

// variables returns the maps in [ExpVar.Map], with their published names.
func (m *ExpVar) variables() []variable {
	return []variable{
		{"reconciliation_count", &m.ReconciliationCountVar},
		{"reconciliation_duration", &m.ReconciliationDurationVar},
		{"reconciliation_total_errors", &m.ReconciliationTotalErrorsVar},
		{"reconciliation_current_errors", &m.ReconciliationCurrentErrorsVar},
		{"prune_count", &m.PruneCountVar},
		{"prune_duration", &m.PruneDurationVar},
		{"prune_total_errors", &m.PruneTotalErrorsVar},
		{"prune_current_errors", &m.PruneCurrentErrorsVar},
	}
}

// key returns the key of one reconciler's variables.
func key(moduleID cell.FullModuleID, name string) string {
	if name == "" {
		return moduleID.String()
	}
	return moduleID.String() + "/" + name
}

// ReconciliationDuration adds to [ExpVar.ReconciliationDurationVar].
func (m *ExpVar) ReconciliationDuration(moduleID cell.FullModuleID, name, operation string, duration time.Duration) {
	m.ReconciliationDurationVar.AddFloat(key(moduleID, name)+"/"+operation, duration.Seconds())
}

// ReconciliationErrors counts a round, adds new to [ExpVar.ReconciliationTotalErrorsVar]
// and sets [ExpVar.ReconciliationCurrentErrorsVar] to current.
func (m *ExpVar) ReconciliationErrors(moduleID cell.FullModuleID, name string, new, current int) {
	key := key(moduleID, name)
	m.ReconciliationCountVar.Add(key, 1)
	m.ReconciliationTotalErrorsVar.Add(key, int64(new))
	intVar(m.ReconciliationCurrentErrorsVar, key).Set(int64(current))
}

// PruneError counts a prune, and a failed one if err is not nil, and sets
// [ExpVar.PruneCurrentErrorsVar].
func (m *ExpVar) PruneError(moduleID cell.FullModuleID, name string, err error) {
	key := key(moduleID, name)
	m.PruneCountVar.Add(key, 1)
	if err == nil {
		intVar(m.PruneCurrentErrorsVar, key).Set(0)
		return
	}
	m.PruneTotalErrorsVar.Add(key, 1)
	intVar(m.PruneCurrentErrorsVar, key).Set(1)
}

// PruneDuration adds to [ExpVar.PruneDurationVar].
func (m *ExpVar) PruneDuration(moduleID cell.FullModuleID, name string, duration time.Duration) {
	m.PruneDurationVar.AddFloat(key(moduleID, name), duration.Seconds())
}
