// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import "github.com/statekeel/statekeel/reconciler/object"

// NewMultiRecorder returns a recorder that passes every event to each of the given recorders in
// order. nil recorders are ignored. Without recorders it discards all events.
func NewMultiRecorder(recorders ...Recorder) Recorder {
	var all multiRecorder
	for _, r := range recorders {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

type multiRecorder []Recorder

func (m multiRecorder) Event(obj object.Object, e Event) {
	for _, r := range m {
		r.Event(obj, e)
	}
}

func (m multiRecorder) WithAnnotations(keysAndValues ...string) Recorder {
	all := make(multiRecorder, len(m))
	for i, r := range m {
		all[i] = r.WithAnnotations(keysAndValues...)
	}
	return all
}
