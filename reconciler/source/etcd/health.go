// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/guard"
)

// maxNamed bounds the bad keys that health and acks name.
const maxNamed = 10

// keepReporting tells health of a function of the program that hangs, while Run waits for it.
func (s *Source[Obj]) keepReporting(ctx context.Context) {
	again := time.NewTicker(guard.LongAfter)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			s.report()
		case <-ctx.Done():
			return
		}
	}
}

// report tells health of the bad keys, of the rows that are held, of a list that failed, and of a function that
// hangs, if that is news.
func (s *Source[Obj]) report() {
	if s.cfg.Health == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, bad := s.someBad(maxNamed), s.bad.Len()
	var parts []string
	if bad > 0 {
		parts = append(parts, fmt.Sprintf("%d bad key(s)", bad))
	}
	if s.holding > 0 {
		parts = append(parts, fmt.Sprintf("the store was replaced: %d row(s) that it does not have are held", s.holding))
	}
	if more := bad - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("%d further bad keys omitted", more))
	}
	if s.listErr != nil {
		parts, errs = append(parts, "the last list failed"), append(errs, s.listErr)
	}
	if long := s.running.Long(); long != "" {
		parts = append(parts, long)
	}
	said, err := strings.Join(parts, "; "), errors.Join(errs...)
	if text := fmt.Sprint(said, err); s.told != text {
		s.told = text
		if len(parts) == 0 {
			s.cfg.Health.OK("no bad keys")
		} else {
			s.cfg.Health.Degraded(said, err)
		}
	}
}
