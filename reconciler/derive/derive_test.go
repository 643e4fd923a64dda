// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/derive"
)

func TestEqualRowsAreNotWritten(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(&wish{Name: "a", Places: "1 2"}, &wish{Name: "b", Places: "1", Metric: 7})
		d := e.best()
		stop := e.run(d)
		before := e.revision()
		e.put(&wish{Name: "a", Places: "2 1"})
		e.put(&wish{Name: "b", Places: "1", Metric: 8})
		require.Equal(e, before, e.revision())
		require.EqualValues(e, 4, e.published().Input)
		require.Equal(e, before, e.published().Output)

		stop()
		d.Close()
		e.run(e.best())
		require.Equal(e, before, e.revision(), "the rows of the derivation before are recognised")
		e.put(&wish{Name: "a", Places: "1 2", Metric: 1})
		require.Equal(e, before+2, e.revision())
	})
}

func TestOutputBelongsToTheDerivationOnceInitialised(t *testing.T) {
	inBubble(t, func(e *env) {
		wtxn := e.db.WriteTxn(e.wishes)
		done := e.wishes.RegisterInitializer(wtxn, "first")
		wtxn.Commit()
		e.other(&route{Place: "1", From: "x"}, &route{Place: "2", From: "x"}, &route{Place: "3", From: "x"})
		d := e.best()
		require.False(e, e.initialized())
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "1"})
		e.has("1<-a", "2<-x", "3<-x")
		require.False(e, e.initialized())
		e.write(func(wtxn statedb.WriteTxn) {
			e.insert(wtxn, &wish{Name: "b", Places: "2"})
			done(wtxn)
		})
		e.has("1<-a", "2<-b")
		require.True(e, e.initialized())

		e.other(&route{Place: "1", From: "y"}, &route{Place: "4", From: "y"})
		e.has("1<-y", "2<-b", "4<-y")
		d.Prune()
		synctest.Wait()
		e.has("1<-a", "2<-b")
		stop()
		e.other(&route{Place: "5", From: "y"})
		e.remove("b")
		e.run(d)
		e.has("1<-a")
	})
}

func TestBadArgumentsAreNamed(t *testing.T) {
	inBubble(t, func(e *env) {
		_, err := derive.Best[*wish, *route, int](derive.Config[*route]{}, nil, nil, nil, nil)
		for _, text := range []string{"Config.DB is nil", "the input table is nil", "the output table is nil", "the function is nil", "the rank function is nil"} {
			require.ErrorContains(e, err, text)
		}
		_, err = derive.Each(e.cfg, e.routes, e.routes, func(r *route) ([]*route, error) { return nil, nil })
		require.ErrorContains(e, err, `the input and the output are the same table "routes"`)
		first := e.each()
		_, err = derive.Each(e.cfg, e.wishes, e.routes, routesOf)
		require.ErrorContains(e, err, `derive-routes: table "routes": another input with the name "wishes" is open`)
		first.Close()
		e.each()
		long := newTable(e, strings.Repeat("x", 25), byPlace)
		_, err = derive.Each(e.cfg, e.wishes, long, routesOf)
		require.ErrorContains(e, err, "cannot be used")
	})
}

func TestManyErrorsAreCountedInHealth(t *testing.T) {
	inBubble(t, func(e *env) {
		e.run(e.each())
		for i := range 15 {
			e.put(&wish{Name: fmt.Sprintf("%02d", i), Fail: "error"})
		}
		e.healthy("row 00 of", "row 09 of", "5 further errors omitted")
		_, message, err := e.health.Scope("derive-routes").Now()
		require.Equal(e, "15 error(s)", message)
		require.NotContains(e, err.Error(), "row 10 of")
	})
}

func TestOutputWithoutAKeyIsAnErrorOfItsInput(t *testing.T) {
	inBubble(t, func(e *env) {
		e.run(e.each())
		e.put(&wish{Name: "a", Places: "1 keyless empty keyless"}, &wish{Name: "b", Places: "2"})
		e.has("1<-a", "2<-b", "empty<-a")
		e.healthy(`row a of table "wishes": row 1 of 4 that the function returned is left out: the primary index makes no key of the object`)
		require.Equal(e, 1, e.published().Rejected)
		e.put(&wish{Name: "a", Places: "empty 3"})
		e.has("2<-b", "3<-a", "empty<-a")
		e.healthy()
	})
}

// A transaction has at most 256 rows. The initialiser ends when all are written, and what nothing wants is deleted.
func TestTransactionsAreSmallAndTheLastInitialises(t *testing.T) {
	inBubble(t, func(e *env) {
		var places []string
		var old []*route
		for i := range 600 {
			places = append(places, fmt.Sprint(i))
			old = append(old, &route{Place: fmt.Sprint("old", i)})
		}
		e.other(old...)
		e.put(&wish{Name: "a", Places: strings.Join(places, " ")})
		var sizes []statedb.Revision
		was := e.revision()
		check := func([]string) {
			now := e.revision()
			sizes, was = append(sizes, now-was), now
			assert.True(e, !e.initialized() || e.routes.NumObjects(e.db.ReadTxn()) == 600)
		}
		d := e.each()
		e.commits.after.Store(&check)
		e.run(d)
		require.Equal(e, []statedb.Revision{256, 256, 256, 256, 176, 0}, sizes)
		require.EqualValues(e, 1, e.published().Input)
		require.Equal(e, e.revision(), e.published().Output)
	})
}

func TestInputIsConnectedWhileTheDerivationRuns(t *testing.T) {
	inBubble(t, func(e *env) {
		wtxn := e.db.WriteTxn(e.wishes)
		e.wishes.RegisterInitializer(wtxn, "first")
		wtxn.Commit()
		d := e.best()
		for range 2 {
			stop := e.run(d)
			require.True(e, e.published().Connected)
			require.ErrorContains(e, d.Run(e.Context()), "is running already")
			stop()
			require.False(e, e.published().Connected)
		}
		d.Close()
		require.ErrorContains(e, d.Run(e.Context()), "has been closed")
	})
}
