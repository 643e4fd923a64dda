// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import "slices"

// Closed is a closed channel. A function that returns a watch channel returns it when there is
// something to read now.
var Closed = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// AnyClosed reports whether one of the channels is closed. A value in a channel is received and
// counts as its closing. nil channels never close.
func AnyClosed(channels []<-chan struct{}) bool {
	return slices.ContainsFunc(channels, isClosed)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
