// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/reconciler"
)

// classed returns the outcome of an update that the kernel refused with err: final, until
// the object changes, if the kernel would only say the same again, and to be retried
// otherwise. What is final elsewhere is not where somebody else may have been quicker:
// there the caller looks again. Deletions are never final, as nothing would be left to
// tell that they were given up.
func classed(err error) error {
	if final(err) {
		return reconciler.TerminalError(err)
	}
	return err
}

// final tells whether an error is one that asking again does not heal. What it does not
// know may heal: a retry in vain every few seconds costs less than waiting for ever.
func final(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.EINVAL, unix.ERANGE:
		// The kernel does not take the object for one that can be.
		return true
	case unix.EEXIST:
		// Its place is taken by something that is the kernel's own.
		return true
	case unix.ENODEV:
		// The link is there, as the caller made sure: it cannot do this.
		return true
	case unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT:
		// Neither can the kernel, or a link of this kind.
		return true
	case unix.EPERM:
		// This process may not, and its rights do not grow.
		return true
	}
	// Above all EBUSY, EAGAIN, EINTR, ENOBUFS, ENOMEM, ETIMEDOUT: it will be less busy.
	// EACCES too: IPv6 may be off for a link, and a sysctl turn it on. ENETDOWN,
	// ENETUNREACH, EHOSTUNREACH: what is to reach the gateway came a moment too late.
	// EROFS: somebody may mount /proc/sys anew.
	return false
}
