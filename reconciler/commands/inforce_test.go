// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"fmt"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
)

// chain makes a chain: apps, of which listeners are derived, of which the routes are. All rows are machines.
func (w *world) chain([]string) (string, error) {
	tables := make([]statedb.RWTable[*machine], 2)
	for i, name := range []string{"apps", "listeners"} {
		var err error
		tables[i], err = statedb.NewTable(w.params.DB, name, byName)
		require.NoError(w, err)
	}
	w.apps = tables[0]
	add := func(name string, in statedb.Table[*machine], out statedb.RWTable[*machine], f func(*machine) ([]*machine, error)) {
		d, err := derive.Each(derive.Config[*machine]{
			Name: name, DB: w.params.DB, Registry: w.registry,
			Same: func(current, derived *machine) bool { return current.Size == derived.Size },
		}, in, out, f)
		require.NoError(w, err)
		d.AddTo(w.params.JobGroup)
	}
	add("listeners-of-apps", w.apps, tables[1], func(app *machine) (listeners []*machine, _ error) {
		for i := range app.Size {
			m := machineNamed(fmt.Sprintf("%s-%d", app.Name, i+1))
			m.Size = app.Size
			listeners = append(listeners, m)
		}
		return listeners, nil
	})
	add("routes-of-listeners", tables[1], w.routes, func(listener *machine) (routes []*machine, _ error) {
		for _, family := range []string{"v4", "v6"} {
			m := machineNamed(listener.Name + "-" + family)
			m.Size, m.Status = listener.Size, reconciler.StatusPending()
			routes = append(routes, m)
		}
		return routes, nil
	})
	return "", nil
}

// setApps makes the apps exactly these.
func (w *world) setApps(args []string) (string, error) {
	wtxn := w.params.DB.WriteTxn(w.apps)
	require.NoError(w, w.apps.DeleteAll(wtxn))
	wtxn.Commit()
	for _, arg := range args {
		name, size, err := assignment(arg)
		if err != nil {
			return "", err
		}
		m := machineNamed(name)
		m.Size = size
		harness.Insert(w, w.params.DB, w.apps, m)
	}
	return "", nil
}
