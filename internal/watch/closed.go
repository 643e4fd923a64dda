// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

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
	for _, ch := range channels {
		select {
		case <-ch:
			return true
		default:
		}
	}
	return false
}
