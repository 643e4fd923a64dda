// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"github.com/statekeel/statekeel/reconciler"
)

// Target is what makes the rows come true: the operations of four reconcilers, which
// may run at the same time.
type Target struct {
	Links     reconciler.Operations[*Link]
	Addresses reconciler.Operations[*Address]
	Routes    reconciler.Operations[*Route]
	Sysctls   reconciler.Operations[*Sysctl]
}
