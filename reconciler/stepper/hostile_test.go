// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

// The reason of a give-up must not contain an unescaped name of a resource.
func TestHostileTextsAreEscapedInReasons(t *testing.T) {
	var results stepper.Results
	results.AddGiveupError("a\x1b[31m\n<<end>>\x00", "created", nil)
	reason := results.Outcome().Error()
	require.Contains(t, reason, "created")
	require.False(t, strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", reason)
}
