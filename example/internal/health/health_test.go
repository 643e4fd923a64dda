// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOnlyDegradedPartsAreReported(t *testing.T) {
	registry, root := New()
	jobs := root.NewScope("jobs")
	a, b, c := jobs.NewScope("a"), jobs.NewScope("b"), root.NewScope("c")
	a.OK("fine")
	b.Degraded("2 error(s)", errors.New("boom"))
	c.Degraded("odd", nil)
	var lines []string
	for _, r := range registry.Degraded() {
		lines = append(lines, r.String())
	}
	assert.Equal(t, []string{"c: odd", "jobs.b: 2 error(s): boom"}, lines)

	b.OK("well again")
	c.Stopped("done")
	a.Degraded("bad", nil)
	a.Close()
	assert.Empty(t, registry.Degraded())
}
