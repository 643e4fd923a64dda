// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/files"
)

// Store fills the tables with the state of a file. Each table has a sink, and a source that reads the file. An invalid
// file changes nothing: the last good state stays in force.
type Store struct{ parts []part }

// part is what fills a table.
type part struct {
	apply  func(config.State) error
	follow func(path string, log *slog.Logger) (run func(context.Context) error, err error)
	close  func()
}

// NewStore returns a store. Until the tables have their first state, they are not initialised. health is told of problems
// of the file; registry and health may be nil.
func NewStore(db *statedb.DB, tables *Tables, registry *inspect.Registry, health cell.Health) (*Store, error) {
	s := &Store{}
	return s, errors.Join(
		// They read one file: one of them tells what is wrong with it.
		add(s, db, tables.Links, registry, health, func(state *config.State) []config.Located[config.Link] { return state.Links }),
		add(s, db, tables.Addresses, registry, nil, func(state *config.State) []config.Located[config.Address] { return state.Addresses }),
		add(s, db, tables.RoutesWanted, registry, nil, func(state *config.State) []config.Located[config.Route] { return state.Routes }),
		add(s, db, tables.Sysctls, registry, nil, func(state *config.State) []config.Located[config.Sysctl] { return state.Sysctls }))
}

// add adds what fills a table with some of the objects of a state.
func add[S Spec](
	s *Store, db *statedb.DB, table statedb.RWTable[*Row[S]], registry *inspect.Registry, health cell.Health,
	specs func(*config.State) []config.Located[S],
) error {
	sink, err := source.New(source.Config[*Row[S]]{
		Name: string(File), DB: db, Table: table, Registry: registry, Health: health,
		AllowEmpty: true, // a file says so: {}
		Same:       (*Row[S]).Same,
	})
	if err != nil {
		return err
	}
	rows := func(state *config.State) (entries []files.Entry[*Row[S]]) {
		for _, located := range specs(state) {
			row := &Row[S]{Spec: located.Spec, Source: File}
			entries = append(entries, files.Entry[*Row[S]]{Object: row, Line: located.Pos.Line, Column: located.Pos.Column})
		}
		return entries
	}
	version := uint64(0)
	s.parts = append(s.parts, part{
		apply: func(state config.State) error {
			var list []*Row[S]
			for _, entry := range rows(&state) {
				list = append(list, entry.Object)
			}
			version++
			_, err := sink.Replace(context.Background(), list, version)
			return err
		},
		follow: func(path string, log *slog.Logger) (func(context.Context) error, error) {
			if health == nil {
				log = nil // as for health
			}
			from, err := files.New(files.Config[*Row[S]]{
				Path: path, Sink: sink, Log: log,
				Parse: func(file string, data []byte) ([]files.Entry[*Row[S]], error) {
					state, err := config.Parse(file, data)
					return rows(&state), err
				},
			})
			if err != nil {
				return nil, err
			}
			return from.Run, nil
		},
		close: sink.Close,
	})
	return nil
}

// Apply makes the tables equal to a state.
func (s *Store) Apply(state config.State) error {
	var errs []error
	for _, p := range s.parts {
		errs = append(errs, p.apply(state))
	}
	return errors.Join(errs...)
}

// Follow keeps the tables equal to the state of a file, until the context ends, and then closes the store.
func (s *Store) Follow(ctx context.Context, path string, log *slog.Logger) error {
	defer s.Close()
	var runs []func(context.Context) error
	for _, p := range s.parts {
		run, err := p.follow(path, log)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	var running sync.WaitGroup
	errs := make([]error, len(runs))
	for i, run := range runs {
		running.Go(func() { errs[i] = run(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// Close ends the store. The rows stay.
func (s *Store) Close() {
	for _, p := range s.parts {
		p.close()
	}
}
