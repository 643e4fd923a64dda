// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"strings"
	"time"
)

// release runs the statement
//
//	release a 300ms
//
// It releases a blocked key at a time.
func (s *stage) release(rest string) error {
	key, at, _ := strings.Cut(rest, " ")
	now, err := time.ParseDuration(at)
	if err == nil && !s.core.Release(key, now) {
		fmt.Fprintf(&s.answer, "%s: was not blocked\n", key)
	}
	return err
}

// finish runs the statement
//
//	finish a 300ms done
//
// It settles a launched item at a time. The outcome is written as for settle.
func (s *stage) finish(rest string) error {
	key, rest, _ := strings.Cut(rest, " ")
	at, rest, _ := strings.Cut(rest, " ")
	now, err := time.ParseDuration(at)
	if err != nil {
		return err
	}
	o, err := s.parseSettlement(rest, now)
	if err != nil {
		return err
	}
	it := s.inFlight[key]
	if it == nil {
		return fmt.Errorf("%q is not in flight", key)
	}
	delete(s.inFlight, key)
	s.settleItem(it, o)
	return nil
}

// pause runs the statement
//
//	pause a, b 300ms
//
// From that time on exactly these keys are paused.
func (s *stage) pause(rest string) error {
	keys := map[string]bool{}
	at := rest[strings.LastIndex(rest, " ")+1:]
	name(strings.TrimSuffix(rest, at), keys)
	now, err := time.ParseDuration(at)
	s.core.SetPaused(now, func(r row) bool { return keys[r.key] })
	return err
}

// resume runs the statement
//
//	resume 400ms
//
// From that time on no key is paused.
func (s *stage) resume(rest string) error {
	now, err := time.ParseDuration(rest)
	s.core.SetPaused(now, nil)
	return err
}

// addOrphan runs the statement
//
//	orphan a@7
//
// It adds an orphan: an object that the target has and the table does not, as of a revision.
func (s *stage) addOrphan(rest string) error {
	key, revision, err := parseVersion(rest)
	if err == nil && !s.core.AddOrphan(row{key: key}, revision) {
		fmt.Fprintf(&s.answer, "%s: is known already\n", key)
	}
	s.see(key)
	return err
}
