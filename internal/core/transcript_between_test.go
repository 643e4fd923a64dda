// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"strings"
	"time"
)

// release is the statement
//
//	release a 300ms
//
// which says that a key has what it was blocked on, and when.
func (s *stage) release(rest string) error {
	key, at, _ := strings.Cut(rest, " ")
	now, err := time.ParseDuration(at)
	if err == nil && !s.core.Release(key, now) {
		fmt.Fprintf(&s.answer, "%s: was not blocked\n", key)
	}
	return err
}

// finish is the statement
//
//	finish a 300ms done
//
// with the words of settle, which says what came of an item that was launched, and when.
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

// pause is the statement
//
//	pause a, b 300ms
//
// which says that exactly these are not to be worked on from a time on, and resume
//
//	resume 400ms
//
// that everything is.
func (s *stage) pause(rest string) error {
	keys := map[string]bool{}
	at := rest[strings.LastIndex(rest, " ")+1:]
	name(strings.TrimSuffix(rest, at), keys)
	now, err := time.ParseDuration(at)
	s.core.SetPaused(now, func(r row) bool { return keys[r.key] })
	return err
}

func (s *stage) resume(rest string) error {
	now, err := time.ParseDuration(rest)
	s.core.SetPaused(now, nil)
	return err
}

// addOrphan is the statement
//
//	addOrphan a@7
//
// which says that the target was found to have an object that the table does not.
func (s *stage) addOrphan(rest string) error {
	key, revision, err := parseVersion(rest)
	if err == nil && !s.core.AddOrphan(row{key: key}, revision) {
		fmt.Fprintf(&s.answer, "%s: is known already\n", key)
	}
	s.see(key)
	return err
}
