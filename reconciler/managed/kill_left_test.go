// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

// marked reports whether a resource of the object is marked as left in place, so that sweeps keep it.
func (w *world) marked(name string) bool {
	for _, id := range w.outside.owned(name) {
		if w.outside.marked[id] {
			return true
		}
	}
	return false
}

// leave removes an object from the file and leaves its resources in place.
func (w *world) leave(name string) {
	w.change(func() {
		was, had := w.wants[name]
		if !had || was.deleted {
			return
		}
		w.wants[name] = want{size: was.size, deleted: true, orphan: true}
		w.left[name] = anySize
		for _, id := range w.outside.owned(name) {
			// One whose deletion has begun goes anyway.
			if !w.outside.going(id) {
				w.left[name] = w.outside.is(id).size
			}
		}
	})
}
