// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"strconv"
	"time"
)

// ageUnits are the units of an age; each has the number of units that make up the next larger one.
var ageUnits = [...]struct {
	suffix string
	next   float64
}{
	{"us", 1000},
	{"ms", 1000},
	{"s", 60},
	{"m", 60},
}

// formatAge formats d with one decimal in the largest unit, up to hours, that fits at least once. A
// negative age (a clock that was set back) keeps its sign.
func formatAge(d time.Duration) string {
	sign := ""
	age := float64(d) / float64(time.Microsecond)
	if age < 0 {
		sign, age = "-", -age
	}
	for _, unit := range ageUnits {
		if age < unit.next {
			return sign + strconv.FormatFloat(age, 'f', 1, 64) + unit.suffix
		}
		age /= unit.next
	}
	return sign + strconv.FormatFloat(age, 'f', 1, 64) + "h"
}
