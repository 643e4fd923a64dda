// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/statedb"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// procSys is the folder with the settings of the caller's network namespace.
const procSys = "/proc/sys"

// sysctls sets settings of the namespace.
type sysctls struct {
	surroundings

	// before holds the values before the first change, to restore them. Only the reconciler's goroutine uses
	// it.
	before map[string]string
}

func newSysctls(s surroundings) *sysctls {
	return &sysctls{surroundings: s, before: make(map[string]string)}
}

// Update sets the value if it differs, and checks that the kernel accepted it.
func (s *sysctls) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Sysctl) error {
	want := row.Spec
	have, err := readSysctl(want)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.missing(txn, want)
	case err != nil:
		return refused(want, err)
	case have == want.Value:
		return nil
	}
	if _, known := s.before[want.Name]; !known {
		s.before[want.Name] = have
	}
	if err := writeSysctl(want, want.Value); err != nil {
		return refused(want, err)
	}
	repaired(s.surroundings, txn, s.Tables.Loops.Sysctls, "sysctl", row)
	if have, err = readSysctl(want); err != nil {
		return refused(want, err)
	}
	if have != want.Value {
		// It will fail the same way next time.
		return reconciler.TerminalError(fmt.Errorf("sysctl %q: set to %q, the kernel made it %q", want.Name, want.Value, have))
	}
	return nil
}

// missing distinguishes an unknown setting from one whose link does not exist. A module that is loaded
// later, or a larger MTU, may add the setting, so it is retried.
func (s *sysctls) missing(txn statedb.ReadTxn, want config.Sysctl) error {
	name := want.Needs()
	if name == "" {
		return fmt.Errorf("sysctl %q: unknown in a network namespace", want.Name)
	}
	link, err := s.needLink(txn, name)
	if err != nil {
		return err
	}
	return s.failedOn(txn, link, fmt.Errorf("sysctl %q: links have no such setting", want.Name))
}

// Delete restores the value from before the first change. If the value was never changed, or its link was
// removed, it does nothing.
func (s *sysctls) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Sysctl) error {
	before, changed := s.before[row.Spec.Name]
	if !changed {
		return nil
	}
	if err := writeSysctl(row.Spec, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(row.Spec, err)
	}
	delete(s.before, row.Spec.Name)
	return nil
}

// List lists the values of the settings that have a row: a setting cannot be removed, so none is listed for that. One
// that cannot be read is left out, and its Update says why.
func (s *sysctls) List(ctx context.Context, _ statedb.ReadTxn, yield func(*desired.Sysctl) bool) error {
	txn, _, _, err := s.look(ctx)
	if err != nil {
		return err
	}
	for row := range s.Tables.Sysctls.All(txn) {
		value, err := readSysctl(row.Spec)
		if err == nil && !yield(&desired.Sysctl{Spec: config.Sysctl{Name: row.Spec.Name, Value: value}}) {
			break
		}
	}
	return nil
}

func sysctlFile(s config.Sysctl) string {
	return filepath.Join(procSys, filepath.Join(s.Path()...))
}

// readSysctl returns the value with single spaces between its words.
func readSysctl(s config.Sysctl) (string, error) {
	value, err := os.ReadFile(sysctlFile(s))
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(string(value)), " "), nil
}

func writeSysctl(s config.Sysctl, value string) error {
	// Without O_CREATE and O_TRUNC, which have no meaning here.
	file, err := os.OpenFile(sysctlFile(s), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	if err := errors.Join(wrote("sysctl", err), file.Close()); err != nil {
		return fmt.Errorf("set to %q: %w", value, err)
	}
	return nil
}

// refused returns the outcome of an update that failed with err. A file that cannot be written is terminal,
// unlike for a link.
func refused(s config.Sysctl, err error) error {
	explained := explain(s, err)
	if final(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EISDIR) {
		return reconciler.TerminalError(explained)
	}
	return explained
}

// explain adds to an error what a user can do about it.
func explain(s config.Sysctl, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		err = fmt.Errorf("%w (in a container /proc/sys is often mounted read-only)", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w (the kernel does not let a namespace change this one)", err)
	case errors.Is(err, unix.EISDIR):
		err = errors.New("names a group of settings, not one of them")
	}
	return fmt.Errorf("sysctl %q: %w", s.Name, err)
}
