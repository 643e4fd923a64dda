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

// AnyClosed is [IsClosed] for one of the channels.
func AnyClosed(channels []<-chan struct{}) bool {
	return slices.ContainsFunc(channels, IsClosed)
}

// IsClosed reports whether a channel is closed. A value in it is received and counts as its closing. A nil channel
// never closes.
func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
