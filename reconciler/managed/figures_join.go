// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "time"

// JoinMetrics returns a [Metrics] that passes every call on to each of the given ones, in their order,
// such as to expvar and Prometheus. nil ones are left out. Without any it does nothing.
func JoinMetrics(all ...Metrics) Metrics {
	var joined joinedMetrics
	for _, m := range all {
		if m != nil {
			joined = append(joined, m)
		}
	}
	if len(joined) == 1 {
		return joined[0]
	}
	return joined
}

type joinedMetrics []Metrics

func (j joinedMetrics) FirstReconciled(kind string, after time.Duration) {
	for _, m := range j {
		m.FirstReconciled(kind, after)
	}
}

func (j joinedMetrics) FirstReady(kind string, after time.Duration) {
	for _, m := range j {
		m.FirstReady(kind, after)
	}
}

func (j joinedMetrics) Deleted(kind string, after time.Duration) {
	for _, m := range j {
		m.Deleted(kind, after)
	}
}

func (j joinedMetrics) Drift(kind string, age time.Duration) {
	for _, m := range j {
		m.Drift(kind, age)
	}
}

func (j joinedMetrics) Observed(kind string, was, is State) {
	for _, m := range j {
		m.Observed(kind, was, is)
	}
}
