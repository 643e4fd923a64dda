// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

type File struct {
	Name, Text string
	Status     reconciler.Status // the outcome, written by the reconciler
}

// Clone returns a copy. A shallow copy is enough: nothing that a File refers to ever changes.
func (f *File) Clone() *File                        { c := *f; return &c }
func (f *File) GetStatus() reconciler.Status        { return f.Status }
func (f *File) SetStatus(s reconciler.Status) *File { f.Status = s; return f }

func newFiles(db *statedb.DB) (statedb.RWTable[*File], error) {
	return statedb.NewTableAny(db, "files", nil, nil, statedb.Index[*File, string]{Name: "name", Unique: true,
		FromObject: func(f *File) index.KeySet { return index.NewKeySet(index.String(f.Name)) }})
}

func TestOutcomeIsWrittenIntoTheRow(t *testing.T) {
	reconcilertest.Run(t, newFiles, func(e *reconcilertest.Env[*File]) {
		target := reconcilertest.NewTarget(func(f *File) string { return f.Name }, (*File).GetStatus)
		e.Start(reconciler.Config[*File]{Operations: target,
			Clone: (*File).Clone, GetStatus: (*File).GetStatus, SetStatus: (*File).SetStatus})
		e.Insert(&File{Name: "motd", Text: "welcome", Status: reconciler.StatusPending()})
		e.Pass(0)
		if row, _ := e.Get(&File{Name: "motd"}); row.Status.Kind != reconciler.StatusKindDone {
			e.Errorf("the status is %s", row.Status)
		}
	})
}
