// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
