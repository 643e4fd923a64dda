// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/reconciler/derive"
)

// WantedKey returns the key of a row in [Tables].RoutesWanted: the source, a slash and the key with the
// metric.
func WantedKey(from Source, route config.Route) string {
	return string(from) + "/" + route.KeyWithMetric()
}

// NewBestRoutes returns the derivation of the table of routes from that of the wanted ones. The fields DB
// and Same of cfg are set here.
func NewBestRoutes(cfg derive.Config[*Route], db *statedb.DB, tables *Tables) (*derive.Derived[*Route, *Route], error) {
	cfg.DB, cfg.Same = db, (*Route).Same
	return derive.Best(cfg, tables.RoutesWanted, tables.Routes, func(wanted *Route) ([]*Route, error) { return []*Route{wanted}, nil }, rank)
}

// rank orders the wanted routes of a key: the lowest metric is the best. Of two sources with the same metric the
// one with the lower name wins, by the keys of the rows.
func rank(r *Route) uint64 { return uint64(r.Spec.Metric) }

// bestRoutes returns the best wanted route of each key, in the order of the keys. The table of routes has
// the same, a moment later.
func (t *Tables) bestRoutes(txn statedb.ReadTxn) []*Route {
	best := make(map[string]*Route)
	for row := range t.RoutesWanted.All(txn) { // in the order of the keys
		key := row.Spec.Key()
		if other := best[key]; other == nil || rank(row) < rank(other) {
			best[key] = row
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b *Route) int { return cmp.Compare(a.Spec.Key(), b.Spec.Key()) })
}
