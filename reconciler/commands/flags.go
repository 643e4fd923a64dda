// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"fmt"
	"time"
)

// text returns the value of a flag. The command must have declared the flag.
func (in *input) text(flag string) string {
	return in.flags.Lookup(flag).Value.String()
}

func (in *input) number(flag string) (int, error) {
	n, err := in.flags.GetInt(flag)
	if err == nil && n < 0 {
		err = fmt.Errorf("--%s is %d, must not be negative", flag, n)
	}
	return n, err
}

func (in *input) duration(flag string) (time.Duration, error) {
	d, err := in.flags.GetDuration(flag)
	if err == nil && d < 0 {
		err = fmt.Errorf("--%s is %s, must not be negative", flag, d)
	}
	return d, err
}

func (in *input) is(flag string) bool {
	is, err := in.flags.GetBool(flag)
	return err == nil && is
}
