// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// obstacle is a system setting that forbids users to create namespaces.
type obstacle struct {
	sysctl, forbids, allow string
}

// The known settings: of the kernel, of Debian's kernels, of Ubuntu's.
var obstacles = []obstacle{
	{"user.max_user_namespaces", "0", "user.max_user_namespaces=10000"},
	{"user.max_net_namespaces", "0", "user.max_net_namespaces=10000"},
	{"kernel.unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"},
	{"kernel.apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"},
}

// ErrForbidden is returned, wrapped, when the system does not allow namespaces to be created or used.
var ErrForbidden = errors.New("the system forbids user and network namespaces")

// Forbidden returns what to enable where the kernel rejects a call that root of a network namespace may
// make.
func Forbidden(err error) error { return explain(err, readProcSys) }

// explain adds to the kernel's error what to do about it. The function returns the value of a sysctl, or ""
// if the system does not have it.
func explain(err error, sysctl func(name string) string) error {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%w: %w\nthis kernel was built without CONFIG_USER_NS or CONFIG_NET_NS: another one is needed", ErrForbidden, err)
	default:
		return fmt.Errorf("start in namespaces of its own: %w", err)
	}
	var remedies []string
	for _, o := range obstacles {
		if sysctl(o.sysctl) == o.forbids {
			remedies = append(remedies, fmt.Sprintf("%s is %s: enable them by\n    sudo sysctl -w %s", o.sysctl, o.forbids, o.allow))
		}
	}
	if len(remedies) == 0 {
		remedies = []string{
			"no setting of the kernel says why; if this is a container, its seccomp or AppArmor profile does not let it:\n" +
				"start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined; in a chroot it cannot work",
		}
	}
	return fmt.Errorf("%w: %w\n%s", ErrForbidden, err, strings.Join(remedies, "\n"))
}

func readProcSys(name string) string {
	value, err := os.ReadFile(filepath.Join("/proc/sys", filepath.FromSlash(strings.ReplaceAll(name, ".", "/"))))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(value))
}
