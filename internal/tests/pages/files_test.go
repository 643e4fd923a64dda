// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/files"
)

func parse(file string, data []byte) (routes []files.Entry[*Route], err error) {
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		prefix, device, found := strings.Cut(line, " ")
		if !found {
			return nil, fmt.Errorf("%s:%d:1: %q is no prefix with a device", file, i+1, line)
		}
		routes = append(routes, files.Entry[*Route]{Object: &Route{Prefix: prefix, Device: device}, Line: i + 1, Column: 1})
	}
	return routes, nil
}

func TestFolderFillsATable(t *testing.T) {
	db := statedb.New()
	table, err := newRoutes(db)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := source.New(source.Config[*Route]{Name: "files", DB: db, Table: table,
		MaxDeletions: source.Bound{Fraction: 0.25}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	dir := t.TempDir()
	routes, err := files.New(files.Config[*Route]{Path: dir, Match: "*.routes", Parse: parse, Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	reconcilertest.Go(t, routes.Run)

	// save saves a file, and waits until it is in the table, or cannot be.
	save := func(name, text string) error {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return routes.Loaded(t.Context(), path)
	}
	if err := save("a.routes", "10.1.0.0/16 eth0\n10.2.0.0/16 eth0\n10.3.0.0/16 eth0\n"); err != nil {
		t.Error(err)
	}
	err = save("b.routes", "10.1.0.0/16 eth1\n10.4.0.0/16 eth1\n")
	fmt.Println(err) // .../b.routes:1:1: "10.1.0.0/16" is also in .../a.routes:1:1, which has it
	err = save("a.routes", "10.1.0.0/16 eth0\n10.2.0.0/16\n")
	fmt.Println(err) // .../a.routes:2:1: "10.2.0.0/16" is no prefix with a device
	err = save("a.routes", "10.1.0.0/16 eth9\n")
	if !errors.Is(err, source.ErrHeld) || table.NumObjects(db.ReadTxn()) != 4 {
		t.Errorf("a truncated file: %v", err)
	}
}
