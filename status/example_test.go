// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"fmt"

	"github.com/statekeel/statekeel/status"
)

// An object that two reconcilers share is done when both have reported.
func ExampleSet() {
	set := status.NewSet("device", "route")
	set = set.Set("device", status.Done())
	fmt.Println(set.IsDone(), set.Get("route").Kind)

	set = set.Set("route", status.Blocked("device eth0"))
	fmt.Println(set.IsDone(), set.Get("route").Kind, set.Get("route").GetError())

	set = set.Set("route", status.Done())
	fmt.Println(set.IsDone())

	// The program changes the object: all reconcilers are asked again.
	set = set.Pending()
	fmt.Println(set.IsDone(), set.Get("device").Kind)

	// Output:
	// false Pending
	// false Blocked device eth0
	// true
	// false Pending
}
