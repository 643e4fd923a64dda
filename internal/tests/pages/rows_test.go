// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Route and Rule are the rows of several pages.
type (
	Route struct{ Prefix, Device, Owner string }
	Rule  struct{ Name, Text string }
)

func getPrefix(r *Route) string { return r.Prefix }
func getRule(r *Rule) string    { return r.Name }

func newRoutes(db *statedb.DB) (statedb.RWTable[*Route], error) {
	return statedb.NewTableAny(db, "routes", nil, nil, indexBy("prefix", true, getPrefix))
}

func newRules(db *statedb.DB) (statedb.RWTable[*Rule], error) {
	return statedb.NewTableAny(db, "rules", nil, nil, indexBy("name", true, getRule))
}

func indexBy[Row any](name string, unique bool, text func(Row) string) statedb.Index[Row, string] {
	return statedb.Index[Row, string]{Name: name, Unique: unique, FromKey: index.String, FromString: index.FromString,
		FromObject: func(row Row) index.KeySet { return index.NewKeySet(index.String(text(row))) }}
}
