// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"fmt"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/nettest"
)

// foreign is another program in a namespace. It has tables of its own, with the names of ours in them, and a chain in our
// table.
type foreign struct {
	testing.TB
	conn *nftables.Conn
	own  *nftables.Table
}

// ours returns the table of the program that a foreign chain is in.
func ours() *nftables.Table {
	return &nftables.Table{Name: "services", Family: nftables.TableFamilyIPv4}
}

func newForeign(t testing.TB, at *nettest.Place) *foreign {
	f := &foreign{TB: t}
	at.Do(func() (err error) {
		f.conn, err = nftables.New(nftables.AsLasting())
		return err
	})
	t.Cleanup(func() { require.NoError(t, f.conn.CloseLasting()) })
	f.own = f.conn.AddTable(&nftables.Table{Name: "foreign", Family: nftables.TableFamilyIPv4})
	same := f.conn.AddTable(&nftables.Table{Name: ours().Name, Family: nftables.TableFamilyINet})
	for _, table := range []*nftables.Table{f.own, same} {
		set := &nftables.Set{Table: table, Name: "services", KeyType: nftables.TypeIPAddr}
		require.NoError(t, f.conn.AddSet(set, []nftables.SetElement{{Key: []byte{1, 2, 3, 4}}}))
		f.chain(table, "draw-2", nil)
		f.chain(table, "output", nftables.ChainHookOutput)
	}
	f.chain(ours(), "foreign", nil)
	require.NoError(t, f.conn.Flush())
	return f
}

// chain adds a chain with a rule that counts.
func (f *foreign) chain(table *nftables.Table, name string, hook *nftables.ChainHook) {
	c := &nftables.Chain{Name: name, Table: table}
	if hook != nil {
		c.Type, c.Hooknum, c.Priority = nftables.ChainTypeFilter, hook, nftables.ChainPriorityFilter
	}
	f.conn.AddRule(&nftables.Rule{Table: table, Chain: f.conn.AddChain(c), Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{1, 2, 3, 4}},
	}})
}

// dump returns tables, chains and sets in the namespace with their contents, except what the program's table has for
// services.
func (f *foreign) dump() (texts []string) {
	f.Helper()
	tables, err := f.conn.ListTables()
	require.NoError(f, err)
	for _, table := range tables {
		texts = append(texts, fmt.Sprint("table ", table.Family, table.Name))
		own := table.Name == "services" && table.Family != nftables.TableFamilyINet
		chains, err := f.conn.ListChainsOfTableFamily(table.Family)
		require.NoError(f, err)
		for _, c := range chains {
			if c.Table.Name != table.Name || own && c.Name != "foreign" && c.Hooknum == nil {
				continue // a chain that draws: there is one for each number that was wanted ever
			}
			rules, err := f.conn.GetRules(table, c)
			require.NoError(f, err)
			for _, r := range rules {
				texts = append(texts, fmt.Sprintf("%v %s %s rule: %d expressions", table.Family, table.Name, c.Name, len(r.Exprs)))
			}
		}
		if own {
			continue
		}
		sets, err := f.conn.GetSets(table)
		require.NoError(f, err)
		for _, s := range sets {
			elements, err := f.conn.GetSetElements(s)
			require.NoError(f, err)
			texts = append(texts, fmt.Sprintf("%s set %s: %v", table.Name, s.Name, elements))
		}
	}
	return texts
}
