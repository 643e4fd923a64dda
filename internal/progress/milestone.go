// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package progress

import "fmt"

// Milestone is what the changes of a wait must have reached. See reconciler.Milestone.
type Milestone uint8

// The milestones, and their number.
const (
	Attempted Milestone = iota
	Applied
	NumMilestones
)

var milestoneNames = [NumMilestones]string{"attempted", "applied"}

// String returns the milestone's name in lower case.
func (m Milestone) String() string {
	if m >= NumMilestones {
		return fmt.Sprintf("milestone %d", uint8(m))
	}
	return milestoneNames[m]
}
