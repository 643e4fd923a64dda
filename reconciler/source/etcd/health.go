// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/hive/cell"
)

// condition is what was reported last.
type condition struct {
	health cell.Health
	told   bool
	last   string
}

// maxNamed bounds the bad keys that health and acks name.
const maxNamed = 10

// report tells health of the bad keys, of the rows that are held, and of a list that failed, if that is news. The goroutine of
// Run calls it.
func (s *Source[Obj]) report() {
	if s.health.health == nil {
		return
	}
	s.mu.Lock()
	errs, bad, holding := s.someBad(maxNamed), len(s.bad), s.holding
	s.mu.Unlock()
	var parts []string
	if bad > 0 {
		parts = append(parts, fmt.Sprintf("%d bad key(s)", bad))
	}
	if holding > 0 {
		parts = append(parts, fmt.Sprintf("the store was replaced by an empty one, %d row(s) are held", holding))
	}
	if more := bad - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("%d further bad keys omitted", more))
	}
	if s.listErr != nil {
		parts, errs = append(parts, "the last list failed"), append(errs, s.listErr)
	}
	said, err := strings.Join(parts, "; "), errors.Join(errs...)
	text := fmt.Sprint(said, err)
	if s.health.told && s.health.last == text {
		return
	}
	s.health.told, s.health.last = true, text
	if len(parts) == 0 {
		s.health.health.OK("no bad keys")
		return
	}
	s.health.health.Degraded(said, err)
}
