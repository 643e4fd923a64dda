// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

// Closed is a closed channel, for those who return a channel that closes when there is more to see,
// while there is.
var Closed = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// AnyClosed reports whether one of the channels is closed. A value that one of them has is received
// and counts as its closing; nil never closes.
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
