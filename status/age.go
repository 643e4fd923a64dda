// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"strconv"
	"time"
)

// ageUnits are the units of an age, each with how many of it make up the next one.
var ageUnits = [...]struct {
	suffix string
	next   float64
}{
	{"us", 1000},
	{"ms", 1000},
	{"s", 60},
	{"m", 60},
}

// formatAge renders d with one decimal in the largest unit, up to hours, of which it
// has at least one. An age below zero, which a clock set back makes, keeps its sign.
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
