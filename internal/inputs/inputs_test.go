// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inputs_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/inputs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object struct{ key string }

func (*object) TableHeader() []string { return []string{"Key"} }
func (o *object) TableRow() []string  { return []string{o.key} }

func newTable(t *testing.T, db *statedb.DB, name string) statedb.RWTable[*object] {
	table, err := statedb.NewTable(db, name, statedb.Index[*object, string]{
		Name: "key", FromObject: func(o *object) index.KeySet { return index.NewKeySet(index.String(o.key)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	})
	require.NoError(t, err)
	return table
}

// env is a database with a table of objects and its inputs.
type env struct {
	t       *testing.T
	db      *statedb.DB
	objects statedb.RWTable[*object]
	inputs  *inputs.Table
}

func newEnv(t *testing.T) *env {
	e := &env{t: t, db: statedb.New()}
	e.objects = newTable(t, e.db, "objects")
	var err error
	e.inputs, err = inputs.Open(e.db, "objects")
	require.NoError(t, err)
	return e
}

// commit runs write in a transaction of both tables.
func (e *env) commit(write func(statedb.WriteTxn)) statedb.ReadTxn {
	wtxn := e.db.WriteTxn(e.objects, e.inputs.Meta())
	defer wtxn.Abort()
	write(wtxn)
	return wtxn.Commit()
}

func (e *env) claim(name string, only bool) (claim *inputs.Claim, err error) {
	wtxn := e.db.WriteTxn(e.objects, e.inputs.Meta())
	defer wtxn.Abort()
	before := e.inputs.Meta().Revision(wtxn)
	if claim, err = e.inputs.Claim(wtxn, e.objects, name, only); err != nil {
		require.Equal(e.t, before, e.inputs.Meta().Revision(wtxn), "an error writes nothing")
		return nil, err
	}
	wtxn.Commit()
	return claim, nil
}

func (e *env) pending() []string { return e.objects.PendingInitializers(e.db.ReadTxn()) }

func TestPublishedRevisionsAreSeenWithTheObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		_, found := e.inputs.Get(e.db.ReadTxn(), "a")
		require.False(t, found)
		began := time.Now()
		txn := e.commit(func(wtxn statedb.WriteTxn) {
			_, _, err := e.objects.Insert(wtxn, &object{"x"})
			require.NoError(t, err)
			e.inputs.Publish(wtxn, "a", 7, e.objects.Revision(wtxn))
		})
		row, changed, found := e.inputs.Watch(txn, "a")
		require.True(t, found)
		require.Equal(t, &inputs.Input{Name: "a", Input: 7, Output: 1, Connected: true, Since: began}, row)

		time.Sleep(time.Minute)
		e.commit(func(wtxn statedb.WriteTxn) { e.inputs.Publish(wtxn, "b", 1, 1) })
		e.commit(func(wtxn statedb.WriteTxn) { e.inputs.Publish(wtxn, "a", 7, 1) })
		require.EqualValues(t, 2, e.inputs.Meta().Revision(e.db.ReadTxn()), "what is known is not written again")
		select {
		case <-changed:
			t.Fatal("the input has not changed")
		default:
		}
		e.commit(func(wtxn statedb.WriteTxn) { e.inputs.Publish(wtxn, "a", 8, 2) })
		<-changed
		again, err := inputs.Open(e.db, "objects")
		require.NoError(t, err)
		row, found = again.Get(e.db.ReadTxn(), "a")
		require.True(t, found, "all users of a table share its inputs")
		require.Equal(t, &inputs.Input{Name: "a", Input: 8, Output: 2, Connected: true, Since: began}, row)

		wtxn := e.db.WriteTxn(e.objects)
		defer wtxn.Abort()
		require.Panics(t, func() { e.inputs.Publish(wtxn, "a", 1, 1) }, "the table of inputs is not locked")
	})
}

func TestInputsAreShown(t *testing.T) {
	row := inputs.Input{Name: "a\x00", Input: 7, Output: 12, Rejected: 2, Held: 3, Connected: true,
		Since: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	require.Equal(t, []string{"Name", "Input", "Output", "Rejected", "Held", "Connected", "Since", "Problem"}, row.TableHeader())
	require.Equal(t, []string{`"a\x00"`, "7", "12", "2", "3", "true", "2026-11-23T12:00:00.000Z", ""}, row.TableRow())
	row.SetProblems(inputs.Problems{First: []string{"f:1:2: no", "f:2:2: no"}, Of: map[string]string{"x": "f:1:2: no"}})
	require.Equal(t, "f:1:2: no", row.TableRow()[7])
	before := row
	row.SetProblems(inputs.Problems{First: []string{"f:1:2: no", "f:2:2: no"}, Of: map[string]string{"x": "f:1:2: no"}})
	require.Equal(t, before, row, "what is there is no change")
	row.SetProblems(inputs.Problems{})
	require.Empty(t, row.Problems().First)
}

func TestTablesThatCannotHaveInputsAreErrors(t *testing.T) {
	db := statedb.New()
	longest := strings.Repeat("x", 24)
	newTable(t, db, longest)
	_, err := inputs.Open(db, longest)
	require.NoError(t, err)
	newTable(t, db, longest+"x")
	_, err = inputs.Open(db, longest+"x")
	require.ErrorContains(t, err, `the name of the table "`+longest+`x" cannot be used`)
	newTable(t, db, "a-inputs")
	_, err = inputs.Open(db, "a")
	require.ErrorContains(t, err, `"a-inputs" that was not made by this library`)
}

func TestInputIsClaimedOnceAndBeginsAtZero(t *testing.T) {
	e := newEnv(t)
	first, err := e.claim("a", false)
	require.NoError(t, err)
	row, found := e.inputs.Get(e.db.ReadTxn(), "a")
	require.True(t, found)
	require.False(t, row.Connected)
	_, err = e.claim("a", false)
	require.EqualError(t, err, `another input with the name "a" is open`)
	_, err = e.claim("b", false)
	require.NoError(t, err)

	e.commit(func(wtxn statedb.WriteTxn) { e.inputs.Publish(wtxn, "a", 7, 1) })
	_, err = e.claim("a", false)
	require.Error(t, err, "publishing keeps the claim")
	first.Release()
	row, _ = e.inputs.Get(e.db.ReadTxn(), "a")
	require.EqualValues(t, 7, row.Input, "the row stays")
	_, err = e.claim("a", false)
	require.NoError(t, err)
	row, _ = e.inputs.Get(e.db.ReadTxn(), "a")
	require.Zero(t, row.Input)
	first.Release()
	_, err = e.claim("a", false)
	require.Error(t, err, "the former user has no more say")
}

func TestClaimOfTheOnlyInputExcludesOthers(t *testing.T) {
	e := newEnv(t)
	e.commit(func(wtxn statedb.WriteTxn) { e.inputs.Publish(wtxn, "unclaimed", 7, 1) })
	only, err := e.claim("a", true)
	require.NoError(t, err)
	for _, exclusive := range []bool{false, true} {
		_, err = e.claim("b", exclusive)
		require.EqualError(t, err, `the input "a" is open, and not both have rows with owners`)
	}
	only.Release()
	_, err = e.claim("b", false)
	require.NoError(t, err)
	_, err = e.claim("a", true)
	require.ErrorContains(t, err, `the input "b" is open`)
}

func TestInitialiserEndsOnceAndIsInherited(t *testing.T) {
	e := newEnv(t)
	first, err := e.claim("a", false)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, e.pending())
	first.Release()
	second, err := e.claim("a", false)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, e.pending(), "released, but not initialised")
	for range 2 {
		e.commit(second.Initialized)
		require.Empty(t, e.pending())
	}
	second.Release()
	third, err := e.claim("a", false)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, e.pending())
	e.commit(third.Initialized)
	require.Empty(t, e.pending())

	e.commit(func(wtxn statedb.WriteTxn) { e.objects.RegisterInitializer(wtxn, "b") })
	_, err = e.claim("b", false)
	require.EqualError(t, err, `the table has another initialiser with the name "b"`)
}
