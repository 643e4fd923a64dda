// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package guard

import "errors"

// ErrGoexit is the error of work whose goroutine was ended by a function of the program, as FailNow of a test does.
var ErrGoexit = errors.New("a function of the program called runtime.Goexit")

// Returned calls f on a new goroutine, and reports whether it returned. It does not return if it
// calls runtime.Goexit. A panic ends the program.
func Returned(f func()) bool {
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() {
			if r := recover(); r != nil {
				panic(r)
			}
			ended <- returned
		}()
		f()
		returned = true
	}()
	return <-ended
}
