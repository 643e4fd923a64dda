// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// overview returns the page with the list of the reconcilers.
func (h *handler) overview(r *http.Request) (answer, error) {
	all := h.targets()
	snapshots := snapshotsOf(r.Context(), all)
	v := view{
		Title: "Reconcilers",
		Trail: []link{{Text: home.Text, Href: home.Href, Current: true}},
		Live:  "./?format=live",
		AsOf:  asOf(time.Now()),
		Lead:  verdict(snapshots),
	}
	list := table{
		ID: "reconcilers", Caption: "Reconcilers", Empty: "There are no reconcilers.",
		Columns: []string{"Name", "Condition", "Objects", "Pending", "In flight", "Failing", "Blocked", "Behind by"},
	}
	data := make([]inspect.Snapshot, len(all))
	for i, s := range snapshots {
		list.Rows = append(list.Rows, []cell{
			{Text: visible(s.ID.String()), Title: "table " + visible(s.ID.Table), Href: all[i].link("show"), Kind: code},
			condition(s), counted(s.Objects), counted(pending(s)), counted(inFlight(s)),
			alarming(s.Failing, bad), alarming(s.Blocked, wait), behind(s),
		})
		bounded.CutTexts(&s)
		data[i] = s
	}
	v.Tables = []table{list}
	return answer{data: map[string]any{"reconcilers": data}, view: v}, nil
}

// snapshotsOf returns the snapshots of all targets. It reads them concurrently, since each may take 100 ms.
func snapshotsOf(ctx context.Context, all []target) []inspect.Snapshot {
	snapshots := make([]inspect.Snapshot, len(all))
	var asked sync.WaitGroup
	for i, t := range all {
		asked.Go(func() { snapshots[i] = t.Snapshot(ctx) })
	}
	asked.Wait()
	return snapshots
}

// verdict returns one sentence about all reconcilers.
func verdict(snapshots []inspect.Snapshot) cell {
	var failing, blocked, troubled int
	for _, s := range snapshots {
		failing += s.Failing
		blocked += s.Blocked
		if trouble(s) {
			troubled++
		}
	}
	switch {
	case troubled > 0:
		return cell{Text: number(troubled) + " of " + number(len(snapshots)) + " reconcilers have problems: " +
			number(failing) + " failing, " + number(blocked) + " blocked", Kind: bad}
	case blocked > 0:
		return cell{Text: "Nothing fails, " + number(blocked) + " blocked", Kind: wait}
	}
	return cell{Text: "Nothing fails", Kind: good}
}

// trouble reports whether the reconciler has a problem that a person should see.
func trouble(s inspect.Snapshot) bool {
	return s.Failing > 0 || s.Breaker != "" || len(s.Stuck) > 0 || s.PruneFailure != "" || s.Condition == inspect.ConditionStopped
}
