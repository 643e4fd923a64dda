// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// portsByLabel has the values of a port as its labels.
var portsByLabel = statedb.Index[*entry, string]{
	Name: "label", FromKey: index.String, FromObject: func(e *entry) index.KeySet { return index.StringSlice(e.Values) },
}

// joins derives the place of an entry from the ports that have one of its values as a label, and from the port with its key.
type joins struct {
	db      *statedb.DB
	ports   statedb.Table[*entry]
	labels  *derive.Joined[*entry, string]
	keys    *derive.Joined[*entry, string]
	withKey func(r *derive.Reader, key string) (port *entry, found bool)
}

func newJoins(e *reconcilertest.Env[*entry]) *joins {
	ports := e.Table.ToTable()
	j := &joins{db: e.DB, ports: ports, labels: derive.Lookup(ports, portsByLabel), keys: derive.Lookup(ports, entryIndex)}
	j.withKey = func(r *derive.Reader, key string) (*entry, bool) {
		port, _, found := j.keys.Get(r, key)
		return port, found
	}
	return j
}

func (j *joins) place(r *derive.Reader, e *entry) ([]*entry, error) {
	place := &entry{Key: e.Key}
	for _, label := range e.Values {
		for port := range j.labels.List(r, label) {
			place.Values = append(place.Values, label+"="+port.Key)
		}
	}
	if port, found := j.withKey(r, e.Key); found {
		place.Values = append(place.Values, port.Values...)
	}
	return []*entry{{Key: e.Key, Values: []string{strings.Join(place.Values, " ")}}}, nil
}

// joining is the subject of a derivation with further inputs, whose look-ups the function changes at each start. The table
// of the ports, which the entries need, is the first one. In the second state the ports alone differ from the first.
func joining(change func(j *joins)) sub {
	s := started(func(e *reconcilertest.Env[*entry], s *store) {
		j := newJoins(e)
		change(j)
		d, err := derive.EachOf(derive.Config[*entry]{DB: e.DB, Registry: e.Registry},
			reconcilertest.TableOf[*entry](e), reconciled(e, s), j.place, j.labels, j.keys)
		require.NoError(e, err)
		e.Cleanup(d.Close)
		reconcilertest.Go(e, d.Run)
	})
	s.Table = func(db *statedb.DB) (statedb.RWTable[*entry], error) {
		return statedb.NewTable(db, "ports", entryIndex, statedb.Indexer[*entry](portsByLabel))
	}
	s.States = list("p=x q=y a=1", "p=y q=x,y a=2", "q=x b=1")
	s.Further = []reconcilertest.Further{reconcilertest.Rows[*entry]{Table: newEntries, States: list("a=x,y b=x", "a=x,y b=x", "b=y c=x")}}
	return s
}

func TestADerivationOfSeveralTablesPasses(t *testing.T) {
	reconcilertest.Check(t, joining(func(*joins) {}))
}

func TestEachBugOfAJoinIsFound(t *testing.T) {
	past := func(j *joins, key string) (*entry, bool) {
		port, _, found := j.ports.Get(j.db.ReadTxn(), entryIndex.Query(key))
		return port, found
	}
	for name, bug := range map[string]func(j *joins){
		"a table is read past the reader": func(j *joins) {
			j.withKey = func(_ *derive.Reader, key string) (*entry, bool) { return past(j, key) }
		},
		"another key is looked up than the one that is read": func(j *joins) {
			j.withKey = func(r *derive.Reader, key string) (*entry, bool) {
				j.keys.Get(r, "port "+key)
				return past(j, key)
			}
		},
		"the old version of a row is kept": func(j *joins) {
			real, kept := j.withKey, map[string]*entry{}
			j.withKey = func(r *derive.Reader, key string) (*entry, bool) {
				port, found := real(r, key)
				if kept[key] == nil && found {
					kept[key] = port
				}
				return kept[key], found
			}
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			failure := check.Expect(t, "", func() { reconcilertest.Check(t, joining(bug)) })
			require.NotNil(t, failure)
			require.Equal(t, fresh, failure.Check, failure.Text)
			t.Log(failure.Text)
		})
	}
}
