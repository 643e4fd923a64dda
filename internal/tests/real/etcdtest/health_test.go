// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// says returns an error if the last report of health does not contain a text.
func says(h *reconcilertest.Health, text string) error {
	level, message, err := h.Now()
	if last := fmt.Sprintf("%s: %s: %v", level, message, err); !strings.Contains(last, text) {
		return fmt.Errorf("health is %q, wanted %q", last, text)
	}
	return nil
}

// listLog is a log of a source, in which it says why it lists the prefix.
type listLog struct{ testlog.Buffer }

// reasons returns why the prefix was listed, from the second time on.
func (l *listLog) reasons() []string {
	reasons := []string{}
	for line := range strings.Lines(l.String()) {
		if _, why, found := strings.Cut(line, " why="); found && strings.Contains(line, "msg=Listing ") {
			reasons = append(reasons, why)
		}
	}
	return reasons[min(1, len(reasons)):]
}
