// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"encoding/json"
	"expvar"
	"fmt"
	"sync"

	"github.com/statekeel/statekeel/metrics"
)

// ExpVarName is what [NewExpVarMetrics] publishes its figures by, if not told otherwise.
const ExpVarName = "managed_resources"

// ExpVarMetrics is a [Metrics] that shows what it is told as one expvar variable: a JSON object
// with an object for each kind, which has
//
//   - "objects", "existing", "ready" and "synced": how many objects there are, and how many of
//     them are so, as in [KindFigures];
//   - "first_time_to_reconcile_seconds", "first_time_to_readiness_seconds", "deletion_seconds"
//     and "drift_seconds": each an object with "count", "sum", "p50" and "p99", of which the last
//     two are at most 9 % too high.
//
// It is made from the [Book] whenever it is read. It is safe for concurrent use.
type ExpVarMetrics struct{ Book }

var (
	_ Metrics    = (*ExpVarMetrics)(nil)
	_ expvar.Var = (*ExpVarMetrics)(nil)
)

// publishing keeps two calls of NewExpVarMetrics from publishing the same name.
var publishing sync.Mutex

// NewExpVarMetrics returns metrics that are published as an expvar variable of the name; an empty
// one means [ExpVarName]. Each call with one name returns the same metrics. It fails, naming the
// variable, if something else is published under the name. It may be called from any goroutine,
// and panics only if the program publishes that name at the same moment by itself.
func NewExpVarMetrics(name string) (*ExpVarMetrics, error) {
	if name == "" {
		name = ExpVarName
	}
	publishing.Lock()
	defer publishing.Unlock()
	switch v := expvar.Get(name).(type) {
	case nil:
		m := NewUnpublishedExpVarMetrics()
		expvar.Publish(name, m)
		return m, nil
	case *ExpVarMetrics:
		return v, nil
	default:
		return nil, fmt.Errorf("expvar variable %q is already published as a %T, want a %T", name, v, &ExpVarMetrics{})
	}
}

// NewUnpublishedExpVarMetrics returns metrics that nobody sees who does not have them, for tests
// and for programs that publish them elsewhere.
func NewUnpublishedExpVarMetrics() *ExpVarMetrics { return &ExpVarMetrics{} }

// String returns the JSON.
func (m *ExpVarMetrics) String() string {
	all := map[string]shownKind{}
	for kind, f := range m.Figures() {
		all[kind] = shownKind{
			Objects: f.Objects, Existing: f.Existing, Ready: f.Ready, Synced: f.Synced,
			FirstReconcile: shownTimes(&f.FirstReconcile), FirstReady: shownTimes(&f.FirstReady),
			Deletion: shownTimes(&f.Deletion), Drift: shownTimes(&f.Drift),
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		// Numbers and names are always JSON; if not, then at least this is.
		return fmt.Sprintf("%q", err)
	}
	return string(text)
}

// shownKind is the JSON of KindFigures. The order of the fields is that of the text.
type shownKind struct {
	Objects        int            `json:"objects"`
	Existing       int            `json:"existing"`
	Ready          int            `json:"ready"`
	Synced         int            `json:"synced"`
	FirstReconcile shownHistogram `json:"first_time_to_reconcile_seconds"`
	FirstReady     shownHistogram `json:"first_time_to_readiness_seconds"`
	Deletion       shownHistogram `json:"deletion_seconds"`
	Drift          shownHistogram `json:"drift_seconds"`
}

type shownHistogram struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

func shownTimes(h *metrics.Histogram) shownHistogram {
	return shownHistogram{Count: h.Count, Sum: h.Sum, P50: h.Quantile(0.5), P99: h.Quantile(0.99)}
}
