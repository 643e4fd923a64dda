// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"errors"
	"fmt"
)

// Budget bounds the orphans that one resync may delete. A zero field is no bound.
type Budget struct {
	Objects int
	// Fraction is a fraction of the listed objects, from 0 to 1.
	Fraction float64
}

// ErrAwaits is in the error of a resync that is above its budget: it awaits the approval of a person.
var ErrAwaits = errors.New("nothing is deleted until a person approves it: with the command reconciler/approve, the button \"Approve resync\" of the page, or Loop.ApproveResync")

// check returns an error if the budget does not allow a resync to delete a number of orphans.
func (b Budget) check(orphans, listed int) error {
	var bound string
	switch {
	case b.Objects > 0 && orphans > b.Objects:
		bound = fmt.Sprintf("%d objects", b.Objects)
	case b.Fraction > 0 && float64(orphans) > b.Fraction*float64(listed):
		bound = fmt.Sprintf("%.4g %% of them", 100*b.Fraction)
	default:
		return nil
	}
	return fmt.Errorf("the table has no row for %[2]d of the %[1]d objects in the target, more than the budget of %[3]s: %[4]w",
		listed, orphans, bound, ErrAwaits)
}
