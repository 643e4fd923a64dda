// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rows_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

type port struct {
	name   string
	status status.Status
}

func (p *port) TableHeader() []string { return []string{"Name"} }
func (p *port) TableRow() []string    { return []string{p.name} }

func portRows(t *testing.T) *rows.Rows[*port] {
	db := statedb.New()
	byName := statedb.Index[*port, string]{
		Name: "name", FromObject: func(p *port) index.KeySet { return index.NewKeySet(index.String(p.name)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	}
	table, err := statedb.NewTable(db, "ports", byName)
	require.NoError(t, err)
	return rows.New(db, table, rows.Writable[*port]{
		Clone:     func(p *port) *port { c := *p; return &c },
		GetStatus: func(p *port) status.Status { return p.status },
		SetStatus: func(p *port, s status.Status) *port { p.status = s; return p },
	})
}

func TestNameReadsBackAsTheKey(t *testing.T) {
	r := portRows(t)
	for name, shown := range map[string]string{
		"eth0": "eth0", "two words": `"two words"`, "0xff": `"0xff"`, "\xff\x00": "0xff00", "": `""`, `a"b`: `"a\"b"`,
	} {
		p := &port{name: name}
		require.Equal(t, shown, r.Name(p))
		require.Equal(t, string(r.Key(p)), string(r.Keys(shown)[0]), "%q", shown)
	}
}

func TestSamePendingComparesTheStatusID(t *testing.T) {
	r := portRows(t)
	old := &port{name: "a", status: status.Pending()}
	same := &port{name: "a", status: old.status}
	require.True(t, r.SamePending(old, same))
	require.False(t, r.SamePending(old, &port{name: "a", status: status.Pending()}), "another Pending status")
	byHand := &port{name: "a", status: status.Status{Kind: status.KindPending}}
	require.False(t, r.SamePending(byHand, byHand), "a status made by hand has no ID")
	done := &port{name: "a", status: old.status}
	done.status.Kind = status.KindDone
	require.False(t, r.SamePending(old, done), "the reconciler's own outcome")
}

// unwritable returns how often the index made a key for a row with a key of a length, in a table whose key has the
// type Key, and the error for that row.
func unwritable[Key any](t *testing.T, length int) (made int, err error) {
	db := statedb.New()
	table, err := statedb.NewTable(db, "ports", statedb.Index[*port, Key]{
		Name: "name", FromKey: func(Key) index.Key { return nil }, Unique: true,
		FromObject: func(p *port) index.KeySet { made++; return index.NewKeySet(index.String(p.name)) },
	})
	require.NoError(t, err)
	err = rows.NewBeside(db, table).Unwritable(&port{name: strings.Repeat("x", length)})
	return made, err
}

func TestKeysAreMadeOnlyIfTheyCanBeTooLong(t *testing.T) {
	for _, of := range []func(*testing.T, int) (int, error){
		unwritable[uint64], unwritable[uint8], unwritable[bool], unwritable[netip.Addr], unwritable[netip.Prefix],
	} {
		made, err := of(t, 8)
		require.NoError(t, err)
		require.Zero(t, made)
	}
	for _, of := range []func(*testing.T, int) (int, error){
		unwritable[string], unwritable[[]byte], unwritable[any], unwritable[struct{ name string }], unwritable[index.Key],
		unwritable[*uint64], unwritable[[1]string], unwritable[binary.ByteOrder],
	} {
		made, err := of(t, rows.MaxKey)
		require.NoError(t, err)
		require.Equal(t, 1, made)
		_, err = of(t, rows.MaxKey+1)
		require.ErrorIs(t, err, rows.ErrKeyTooLong)
	}
}
