// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// env is a table recorder in a bubble of virtual time.
type env struct {
	*testing.T
	db       *statedb.DB
	table    statedb.RWTable[*event.Row]
	recorder *event.TableRecorder
	log      *strings.Builder
}

// inTable runs a test with a recorder that is not running yet.
func inTable(t *testing.T, config event.TableConfig, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, db: reconcilertest.NewDB(t), log: &strings.Builder{}}
		table, err := event.NewTable(e.db)
		require.NoError(t, err)
		e.table = table
		e.recorder, err = event.NewTableRecorder(e.db, table, slog.New(slog.NewTextHandler(e.log, nil)), config)
		require.NoError(t, err)
		test(e)
	})
}

// run runs the recorder until stop is called, which waits for its end.
func (e *env) run() (stop func()) { return reconcilertest.Go(e, e.recorder.Run) }

// written waits until all events are written.
func (e *env) written() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// rows returns the table as one line for each row.
func (e *env) rows() (all []string) {
	for row := range e.table.All(e.db.ReadTxn()) {
		all = append(all, strings.Join(row.TableRow(), " | "))
	}
	return all
}

func TestRepeatedEventsAreFolded(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		start := time.Now()
		e.recorder.Event(named("web"), event.Normal("Created", "made it"))
		e.recorder.Event(named("web"), event.Normal("Created", "made it"))
		e.written()
		time.Sleep(time.Minute)
		e.recorder.Event(named("web"), event.Normal("Created", "made it"))
		e.written()

		row, _, found := e.table.Get(e.db.ReadTxn(), event.ByKey(event.RowKey{
			Object: object.Key{Namespace: "prod", Name: "web"}, Type: event.TypeNormal, Reason: "Created", Message: "made it",
		}))
		require.True(e, found)
		require.Equal(e, &event.Row{
			Namespace: "prod", Name: "web", Type: event.TypeNormal, Reason: "Created", Message: "made it",
			Count: 3, First: start, Last: start.Add(time.Minute + 100*time.Millisecond),
		}, row)
		require.Equal(e, 1, e.table.NumObjects(e.db.ReadTxn()))
	})
}

func TestEventsThatDifferInOnePartAreNotFolded(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		// Some parts contain the separator of the key.
		for _, parts := range [][4]string{
			{"a", "b", "r", "m"}, {"ab", "", "r", "m"}, {"", "ab", "r", "m"}, {"a", "b", "rm", ""}, {"a", "b", "", "rm"},
			{"a\x00", "b", "r", "m"}, {"a", "\x00b", "r", "m"}, {"a\x00\x01", "b", "r", "m"}, {"a", "\x01b", "r", "m"},
			{"a\x00\xff", "b", "r", "m"},
		} {
			obj, reason := &object.Meta{Namespace: parts[0], Name: parts[1]}, event.Reason(parts[2])
			e.recorder.Event(obj, event.Normal(reason, parts[3]))
			e.recorder.Event(obj, event.Warning(reason, errText(parts[3])))
			e.recorder.WithAnnotations(event.SourceAnnotation, "s").Event(obj, event.Normal(reason, parts[3]))
		}
		e.written()
		require.Equal(e, 30, e.table.NumObjects(e.db.ReadTxn()))
		of := e.table.List(e.db.ReadTxn(), event.ByObject(object.KeyOf(&object.Meta{Namespace: "a", Name: "b"})))
		require.Len(e, statedb.Collect(of), 9)
	})
}

// errText is an error with a text.
type errText string

func (e errText) Error() string { return string(e) }

func TestRowsHaveTheLatestAnnotationsAndAllHeldBack(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		r := e.recorder.WithAnnotations(event.SourceAnnotation, "tunnels", "try", "1")
		for i := range 3 {
			warning := event.Warning("CannotCreate", errRefused)
			if i > 0 {
				warning = event.Warning("CannotCreate", errRefused, "try", strconv.Itoa(i+1))
			}
			warning.HeldBack = uint64(i)
			r.Event(named("web"), warning)
			if i == 0 {
				e.written()
			}
		}
		e.written()
		require.Equal(e, []string{"tunnels:prod/web | Warning | CannotCreate | 3+3 | 2000-01-01T00:00:00.100Z | refused (try=3)"}, e.rows())
	})
}

func TestEventNeverBlocks(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		wtxn := e.db.WriteTxn(e.table)
		for i := range 10 * 1024 { // more than can be pending
			e.recorder.Event(nth(i), event.Normal("Created", "made it"))
		}
		wtxn.Abort()
		e.written()
		require.Len(e, e.rows(), 1000)
		require.Equal(e, uint64(9*1024), e.recorder.Dropped())
	})
}

func TestManyEventsAreFewTransactions(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		for i := range 1000 {
			e.recorder.Event(named("web"), event.Normal("Created", "made it"))
			e.recorder.Event(nth(i%3), event.Normal("Created", "made it"))
			time.Sleep(time.Millisecond)
		}
		e.written()
		require.Len(e, e.rows(), 4)
		// One revision for each row of a transaction.
		require.LessOrEqual(e, e.table.Revision(e.db.ReadTxn()), uint64(4*(1000/20+1)))
	})
}

func TestRowsNotRepeatedForLongestAreDeleted(t *testing.T) {
	inTable(t, event.TableConfig{MaxRows: 3}, func(e *env) {
		defer e.run()()
		record := func(numbers ...int) {
			for _, i := range numbers {
				e.recorder.Event(nth(i), event.Normal("Created", "made it"))
			}
			e.written()
		}
		objects := func() (names []string) {
			for row := range e.table.All(e.db.ReadTxn()) {
				names = append(names, row.Name)
			}
			return names
		}
		record(0, 1, 2)
		require.Equal(e, []string{"web0", "web1", "web2"}, objects())
		record(0, 3)
		require.Equal(e, []string{"web0", "web2", "web3"}, objects())
		record(4, 5, 6, 7, 8)
		require.Equal(e, []string{"web6", "web7", "web8"}, objects())
		require.Zero(e, e.recorder.Dropped())
	})
}

func TestEventsBeyondMaxPendingAreDroppedAndCounted(t *testing.T) {
	inTable(t, event.TableConfig{MaxPending: 2}, func(e *env) {
		for i := range 5 {
			e.recorder.Event(nth(i), event.Normal("Created", "made it"))
			e.recorder.Event(nth(0), event.Normal("Created", "made it")) // fits: its row is pending already
		}
		require.Equal(e, uint64(3), e.recorder.Dropped())
		stop := e.run()
		e.written()
		require.Equal(e, []string{
			"prod/web0 | Normal | Created | 6 | 2000-01-01T00:00:00.000Z | made it",
			"prod/web1 | Normal | Created | 1 | 2000-01-01T00:00:00.000Z | made it",
		}, e.rows())
		require.Contains(e, e.log.String(), "dropped=3 in_all=3")

		e.recorder.Event(nth(5), event.Normal("Created", "made it"))
		e.written()
		require.Len(e, e.rows(), 3, "there is room again")
		stop()
		require.Equal(e, 1, strings.Count(e.log.String(), "\n"), "logged once: %s", e.log)
	})
}

func TestATableRecorderIsSafeForConcurrentUse(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		stop := e.run()
		annotated := e.recorder.WithAnnotations("id", "7")
		inParallel(8, 100, func(i int) {
			annotated.Event(nth(i%5), event.Normal("Created", "made it"))
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		})
		stop()
		total := uint64(0)
		for row := range e.table.All(e.db.ReadTxn()) {
			total += row.Count
			require.False(e, row.Last.Before(row.First))
		}
		require.Equal(e, uint64(800), total)
		require.Len(e, e.rows(), 5)
	})
}

func TestUnprintableTextsAreEscapedInTheTable(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		defer e.run()()
		e.recorder.Event(&object.Meta{Name: "a\x1b[2J"}, event.Normal("r\n", "two\nlines", "k", "\x07"))
		e.written()
		require.Equal(e, []string{`a\x1b[2J | Normal | r\n | 1 | 2000-01-01T00:00:00.000Z | two\nlines (k=\a)`}, e.rows())
	})
}

func TestTheErrorNamesEveryMistakeOfATableRecorder(t *testing.T) {
	_, err := event.NewTableRecorder(nil, nil, nil, event.TableConfig{MaxRows: -1, MaxPending: -2})
	require.EqualError(t, err, `new table recorder: the table is nil
the DB is nil
TableConfig.MaxRows is -1, must not be negative
TableConfig.MaxPending is -2, must not be negative`)
}

// hook is a log handler that calls a function.
type hook struct {
	slog.Handler
	do func()
}

func (h hook) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

func TestEventsRecordedDuringTheLastWriteAreWritten(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		ctx, stop := context.WithCancel(e.Context())
		var r *event.TableRecorder
		// It is called between the last take of the pending events and the end of the recorder.
		log := slog.New(hook{slog.NewTextHandler(e.log, nil), func() {
			r.Event(named("last"), event.Normal("Created", "made it"))
			stop()
		}})
		r, err := event.NewTableRecorder(e.db, e.table, log, event.TableConfig{MaxPending: 1})
		require.NoError(e, err)
		r.Event(nth(0), event.Normal("Created", "made it"))
		r.Event(nth(1), event.Normal("Created", "made it")) // dropped, which is logged after the write
		require.NoError(e, r.Run(ctx))
		require.Len(e, e.rows(), 2, "the last one was recorded before the context ended")
	})
}
