// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// keyed is a row with any bytes as its key and any text as its first column.
type keyed struct {
	key, column string
	status      reconciler.Status
}

func (k *keyed) Clone() *keyed                        { c := *k; return &c }
func (k *keyed) SetStatus(s reconciler.Status) *keyed { k.status = s; return k }
func (k *keyed) GetStatus() reconciler.Status         { return k.status }
func (k *keyed) TableHeader() []string                { return []string{"Name"} }
func (k *keyed) TableRow() []string                   { return []string{k.column} }

// noTarget implements operations that never run.
type noTarget struct{}

func (noTarget) Update(context.Context, statedb.ReadTxn, statedb.Revision, *keyed) error { return nil }
func (noTarget) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *keyed) error { return nil }

// keySpace is a table with one way to parse keys from text, and a loop that does not run.
type keySpace struct {
	db    *statedb.DB
	table statedb.RWTable[*keyed]
	loop  *reconciler.Loop[*keyed]
	index statedb.Index[*keyed, string]
	// size is the number of bytes of a key; 0 allows any number.
	size int
}

// newKeySpace returns a key space with an empty table; fromString may be nil.
func newKeySpace(f *testing.F, name string, size int, fromString func(string) (index.Key, error)) *keySpace {
	s := &keySpace{db: statedb.New(), size: size}
	s.index = statedb.Index[*keyed, string]{
		Name:       "key",
		FromObject: func(k *keyed) index.KeySet { return index.NewKeySet(index.String(k.key)) },
		FromKey:    index.String,
		FromString: fromString,
		Unique:     true,
	}
	var err error
	s.table, err = statedb.NewTable(s.db, name, s.index)
	require.NoError(f, err)
	s.loop, err = reconciler.New(reconciler.Config[*keyed]{
		DB: s.db, Table: s.table, Operations: noTarget{},
		Clone: (*keyed).Clone, SetStatus: (*keyed).SetStatus, GetStatus: (*keyed).GetStatus,
	})
	require.NoError(f, err)
	return s
}

// rows replaces the rows of the table by two new ones and returns them in the order of their keys.
// It returns one row if both keys are equal.
func (s *keySpace) rows(t *testing.T, keys, columns [2]string) []*keyed {
	wtxn := s.db.WriteTxn(s.table)
	require.NoError(t, s.table.DeleteAll(wtxn))
	for i, key := range keys {
		if s.size > 0 {
			key = (key + strings.Repeat("\x00", s.size))[:s.size]
		}
		_, _, err := s.table.Insert(wtxn, &keyed{key: key, column: columns[i], status: reconciler.StatusDone()})
		require.NoError(t, err)
	}
	return statedb.Collect(s.table.All(wtxn.Commit()))
}

// FuzzKeyTextNamesOneObject shows keys as text and passes the text back. Every object has its own
// text. The text is a printable word and always names that object, whatever the other keys and
// columns are. An arbitrary text names one object or none.
func FuzzKeyTextNamesOneObject(f *testing.F) {
	spaces := []*keySpace{
		newKeySpace(f, "text", 0, index.FromString),
		newKeySpace(f, "bytes", 0, nil),
		newKeySpace(f, "numbers", 2, index.Uint16String),
		newKeySpace(f, "booleans", 1, index.BoolString),
		newKeySpace(f, "prefixes", 0, index.NetIPPrefixString),
	}
	f.Fuzz(func(t *testing.T, space uint8, key1, key2, column1, column2, typed string) {
		s := spaces[int(space)%len(spaces)]
		rows := s.rows(t, [2]string{key1, key2}, [2]string{column1, column2})
		names := s.loop.Keys("", 10)
		require.Len(t, names, len(rows))
		for i, name := range names {
			requireWord(t, name)
			require.NotContains(t, names[:i], name)
			x := s.loop.Explain(t.Context(), name)
			require.True(t, x.Found, "%q", name)
			require.Equal(t, name, x.Key)
			_, revision, _ := s.table.Get(s.db.ReadTxn(), s.index.Query(rows[i].key))
			require.Equal(t, revision, x.Revision, "%q", names)
		}

		x := s.loop.Explain(t.Context(), typed)
		requireWord(t, x.Key)
		require.LessOrEqual(t, len(x.Key), 10*max(len(typed), len(key1), len(key2), len(column1), len(column2), 16)+2)
		if !x.Found && strings.HasPrefix(x.Key, "0x") {
			// The user may mean the text itself, if an object has that key.
			return
		}
		again := s.loop.Explain(t.Context(), x.Key)
		require.Equal(t, x.Key, again.Key, "of %q", typed)
		require.Equal(t, x.Found, again.Found)
		require.Equal(t, x.Revision, again.Revision)
	})
}

// requireWord requires that a text is valid UTF-8 and printable, and quoted if it has spaces.
func requireWord(t *testing.T, s string) {
	require.NotEmpty(t, s)
	require.True(t, utf8.ValidString(s), "%q", s)
	for _, r := range s {
		require.True(t, unicode.IsPrint(r), "%q", s)
	}
	if strings.ContainsAny(s, ` '`) {
		require.True(t, strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`), "%s", s)
	}
}
