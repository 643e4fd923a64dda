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

// ExpVarName is the default name of the variable that [NewExpVarMetrics] publishes.
const ExpVarName = "managed_resources"

// ExpVarMetrics is a [Metrics] that is also an expvar variable: a JSON object with one member for each
// kind. The value of a member is an object with
//
//   - "objects", "existing", "ready" and "synced": counts of objects, as in [KindFigures];
//   - "first_time_to_reconcile_seconds", "first_time_to_readiness_seconds", "deletion_seconds" and
//     "drift_seconds": each an object with "count", "sum", "p50" and "p99". The last two are at most
//     9 % too high.
//
// The JSON is made from the [Book] at each read. ExpVarMetrics is safe for concurrent use.
type ExpVarMetrics struct{ Book }

var (
	_ Metrics    = (*ExpVarMetrics)(nil)
	_ expvar.Var = (*ExpVarMetrics)(nil)
)

// publishing serialises the calls of NewExpVarMetrics, so that no two publish the same name.
var publishing sync.Mutex

// NewExpVarMetrics returns metrics that are published as an expvar variable of the given name; an empty
// name means [ExpVarName]. All calls with the same name return the same metrics. It returns an error
// that names the variable if something else is published under the name. It may be called from any
// goroutine, and panics only if the program publishes that name itself at the same moment.
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

// NewUnpublishedExpVarMetrics returns metrics that are not published, for tests and for programs that
// publish them elsewhere.
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
		// Numbers and strings can always be marshalled; this is still valid JSON if they cannot.
		return fmt.Sprintf("%q", err)
	}
	return string(text)
}

// shownKind is the JSON form of KindFigures. The order of the fields is that of the text.
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
