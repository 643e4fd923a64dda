// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Desired is the content of the file, as YAML or JSON.
type Desired struct {
	Tunnels []DesiredTunnel `json:"tunnels" yaml:"tunnels"`
}

// DesiredTunnel is one desired tunnel.
type DesiredTunnel struct {
	// Name is also the name at the broker. It must be unique.
	Name         string `json:"name" yaml:"name"`
	api.Settings `yaml:",inline"`
	// Orphan leaves the tunnel at the broker when it is removed from the file while an agent runs.
	Orphan bool `json:"orphan,omitempty" yaml:"orphan,omitempty"`
}

// parse parses the content of the file. The error names everything that is wrong with it. Only the
// broker checks the settings.
func parse(data []byte) (Desired, error) {
	var d Desired
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return d, err
	}
	var errs []error
	seen := map[string]bool{}
	for i, t := range d.Tunnels {
		switch {
		case t.Name == "":
			errs = append(errs, fmt.Errorf("tunnel %d has no name", i+1))
		case seen[t.Name]:
			errs = append(errs, fmt.Errorf("tunnel %q is there twice", t.Name))
		}
		seen[t.Name] = true
	}
	return d, errors.Join(errs...)
}

// readEvery is how often the file is read. The file is small, so this is cheap.
const readEvery = 100 * time.Millisecond

// follower keeps the table as the file lists it.
type follower struct {
	path   string
	db     *statedb.DB
	writer managed.Writer[*Tunnel]
	log    *slog.Logger
	// trouble is the last error, so that each error is reported once.
	trouble string
}

// run is a job that applies the file again and again until the context ends. It calls initialized with
// the first version that it applies.
func (f *follower) run(ctx context.Context, health cell.Health, initialized func(statedb.WriteTxn)) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		err := f.read(initialized)
		if err == nil {
			initialized = func(statedb.WriteTxn) {}
		}
		f.tell(health, err)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// tell reports a change of the error, or that there is none.
func (f *follower) tell(health cell.Health, err error) {
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	if err == nil {
		health.OK("applied")
	} else if trouble != f.trouble {
		health.Degraded("the file is not applied; its previous version stays in effect", err)
		f.log.Error("file not applied; its previous version stays in effect", "file", f.path, "error", err)
	}
	f.trouble = trouble
}

// read applies the file to the table. Only differences are written. A tunnel that was listed again
// while it was being deleted is applied by a later read.
func (f *follower) read(initialized func(statedb.WriteTxn)) error {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	desired, err := parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	wtxn := f.db.WriteTxn(f.writer.Table)
	defer wtxn.Abort()
	if err := f.apply(wtxn, desired); err != nil {
		return err
	}
	initialized(wtxn)
	wtxn.Commit()
	return nil
}

func (f *follower) apply(wtxn statedb.WriteTxn, desired Desired) error {
	wanted := map[string]bool{}
	for _, t := range desired.Tunnels {
		wanted[t.Name] = true
		row := &Tunnel{Meta: managed.Meta{Meta: object.Meta{Name: t.Name}}}
		_, err := f.writer.Apply(wtxn, row, func(row *Tunnel) {
			row.Settings, row.DeletionPolicy = t.Settings, managed.DeletionDelete
			if t.Orphan {
				row.DeletionPolicy = managed.DeletionOrphan
			}
		})
		// A row that is being deleted is applied by a later read, when it is gone.
		if err != nil && !errors.Is(err, managed.ErrTerminating) {
			return err
		}
	}
	var unwanted []*Tunnel
	for row := range f.writer.Table.All(wtxn) {
		if !wanted[row.Name] {
			unwanted = append(unwanted, row)
		}
	}
	for _, row := range unwanted {
		if _, err := f.writer.Delete(wtxn, row); err != nil {
			return err
		}
	}
	return nil
}
