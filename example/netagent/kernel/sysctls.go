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
	before map[string]former
}

// former is the value of a sysctl before the first change, and the index of its link; 0 if it has none. Another link
// may get the name later.
type former struct {
	value string
	link  int
}

func newSysctls(s surroundings) *sysctls {
	return &sysctls{surroundings: s, before: make(map[string]former)}
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
	link, err := indexOf(want)
	if err != nil {
		return err
	}
	if before, known := s.before[want.Name]; !known || before.link != link {
		s.before[want.Name] = former{have, link}
	}
	// Twice, since another program may have been faster.
	for try := 0; have != want.Value && try < 2; try++ {
		if err := s.write(txn, want, want.Value); err != nil {
			return refused(want, err)
		}
		if have, err = readSysctl(want); err != nil {
			return refused(want, err)
		}
	}
	repaired(s.surroundings, txn, s.Tables.Loops.Sysctls, "sysctl", row)
	if have != want.Value {
		// It will fail the same way next time.
		return reconciler.TerminalError(fmt.Errorf("sysctl %q: set to %q, the kernel made it %q", want.Name, want.Value, have))
	}
	return nil
}

// indexOf returns the index of the link that a sysctl belongs to, or 0.
func indexOf(s config.Sysctl) (int, error) {
	link, err := findLink(s.Needs())
	if err != nil || link == nil {
		return 0, err
	}
	return link.Attrs().Index, nil
}

// write sets the value, and reports what the kernel may have changed with it:
//
//   - net.ipv4.ip_forward, and a setting of "all", those of "all", "default" and each link;
//   - a setting of "default", those of each link that has never been set;
//   - disable_ipv6, the addresses and routes.
//
// No setting changes one above it, so rows that contradict each other do not replace each other without a pause.
func (s *sysctls) write(txn statedb.ReadTxn, want config.Sysctl, value string) error {
	if err := writeSysctl(want, value); err != nil {
		return err
	}
	group, setting := want.Group()
	if want.Name == "net.ipv4.ip_forward" || group == config.AllLinks && setting == "forwarding" {
		s.Undid(config.AllLinks, desired.UndidSysctls)
		group = config.AllLinks
	}
	var undid desired.Effect
	if setting == "disable_ipv6" {
		undid = desired.UndidAddresses | desired.UndidRoutes
	}
	if group == config.AllLinks {
		s.Undid(config.NewLinks, desired.UndidSysctls)
	}
	if group == config.AllLinks || group == config.NewLinks {
		for link := range s.Links.All(txn) {
			s.Undid(link.Name, undid|desired.UndidSysctls)
		}
	} else if undid != 0 {
		s.Undid(group, undid)
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
func (s *sysctls) Delete(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Sysctl) error {
	before, changed := s.before[row.Spec.Name]
	if !changed {
		return nil
	}
	link, err := indexOf(row.Spec)
	if err != nil {
		return err
	}
	if link == before.link {
		if err := s.write(txn, row.Spec, before.value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(row.Spec, err)
		}
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

// Get gets a setting as List lists it.
func (s *sysctls) Get(_ context.Context, _ statedb.ReadTxn, wanted *desired.Sysctl) (found *desired.Sysctl, ok bool, err error) {
	value, err := readSysctl(wanted.Spec)
	if err != nil {
		return nil, false, nil // Update says why
	}
	return &desired.Sysctl{Spec: config.Sysctl{Name: wanted.Spec.Name, Value: value}}, true, nil
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
