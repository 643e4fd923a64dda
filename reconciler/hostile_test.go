// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/pauses"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// hostileKey is a text that does harm on a terminal and in hive's shell.
const hostileKey = "a\x1b[31m\n<<end>>\x00"

// printable requires that a text has no control characters except line ends, and that no line
// begins with the <<end>> of hostileKey.
func printable(t testing.TB, what, text string) {
	t.Helper()
	for _, r := range text {
		require.True(t, unicode.IsPrint(r) || r == '\n', "%s: %q", what, text)
	}
	require.NotContains(t, text, "\n<<end>>", what)
}

// hostileRow is a row with a text as its key.
type hostileRow struct {
	Name   string
	Status reconciler.Status
}

func (r *hostileRow) clone() *hostileRow                        { c := *r; return &c }
func (r *hostileRow) getStatus() reconciler.Status              { return r.Status }
func (r *hostileRow) setStatus(s reconciler.Status) *hostileRow { r.Status = s; return r }

func (r *hostileRow) TableHeader() []string { return []string{"Name"} }
func (r *hostileRow) TableRow() []string    { return []string{r.Name} }

var hostileIndex = statedb.Index[*hostileRow, string]{
	Name:       "name",
	FromObject: func(r *hostileRow) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	FromKey:    index.String, FromString: index.FromString, Unique: true,
}

// hostileTarget fails each update with an error that contains the key.
type hostileTarget struct {
	reconciler.Operations[*hostileRow]
}

func (hostileTarget) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *hostileRow) error {
	return fmt.Errorf("cannot apply %s: %w", r.Name, errors.New("refused"))
}

// Keys, names and errors from outside are escaped in errors, in health and in rendered texts.
func TestHostileTextsAreEscapedInErrorsAndHealth(t *testing.T) {
	for name, opts := range map[string][]reconciler.Option{
		"errors": nil, "breaker": {reconciler.WithBreaker(reconciler.Breaker{Failures: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := statedb.New()
				require.NoError(t, db.Start())
				defer func() { require.NoError(t, db.Stop()) }()
				table, err := statedb.NewTable(db, "hostile", hostileIndex)
				require.NoError(t, err)
				reports, registry := &historyHealth{}, &inspect.Registry{}
				loop, err := reconciler.New(reconciler.Config[*hostileRow]{
					DB: db, Table: table, Operations: hostileTarget{}, Health: reports,
					Clone: (*hostileRow).clone, GetStatus: (*hostileRow).getStatus, SetStatus: (*hostileRow).setStatus,
					Options: append(opts, reconciler.WithName(hostileKey), reconciler.WithRegistry(registry),
						reconciler.WithoutPruning(), reconciler.WithRetry(time.Hour, time.Hour)),
				})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- loop.Run(ctx) }()
				defer func() { cancel(); require.NoError(t, <-ended) }()
				row := &hostileRow{hostileKey, reconciler.StatusPending()}
				wtxn := db.WriteTxn(table)
				_, _, err = table.Insert(wtxn, row)
				require.NoError(t, err)
				wtxn.Commit()
				time.Sleep(time.Second)

				_, message, wrong := reports.Now()
				require.ErrorContains(t, wrong, "cannot apply")
				printable(t, "health", message+wrong.Error())

				unknown := "x" + hostileKey
				short, stop := context.WithTimeout(ctx, time.Second)
				defer stop()
				errs := map[string]error{}
				_, errs["retry"] = loop.Retry(ctx, unknown)
				_, errs["refresh"] = loop.Refresh(ctx, unknown)
				errs["pause"] = pauses.Add(ctx, loop, unknown)
				errs["resume"] = pauses.Remove(ctx, loop, unknown)
				_, errs["wait key"] = loop.WaitKey(ctx, unknown, reconciler.Applied)
				_, errs["find"] = registry.Find(unknown)
				unapplied, err := loop.WaitFor(short, reconciler.Applied, row)
				errs["wait for"] = err
				require.NotEmpty(t, unapplied.Keys)
				for _, o := range unapplied.Keys {
					errs["unapplied"] = o
				}
				for what, err := range errs {
					require.Error(t, err, what)
					printable(t, what, err.Error())
				}
				printable(t, "explanation", loop.Explain(ctx, hostileKey).String())
				printable(t, "snapshot", loop.Snapshot(ctx).String())
			})
		})
	}
}
