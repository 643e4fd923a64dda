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

// overview lists the reconcilers with their figures.
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
		Columns: []string{"Name", "Condition", "Objects", "Pending", "In flight", "Failing", "Blocked", "Behind by", "Operations"},
	}
	data := make([]inspect.Snapshot, len(all))
	for i, s := range snapshots {
		list.Rows = append(list.Rows, []cell{
			{Text: visible(s.ID.String()), Title: "table " + visible(s.ID.Table), Href: all[i].link("show"), Kind: code},
			condition(s), counted(s.Objects), counted(pending(s)), counted(inFlight(s)),
			alarming(s.Failing, bad), alarming(s.Blocked, wait), behind(s),
			{Text: rate(s.OperationsPerSecond), Kind: count},
		})
		bounded.CutTexts(&s)
		data[i] = s
	}
	v.Tables = []table{list}
	return answer{data: map[string]any{"reconcilers": data}, view: v}, nil
}

// snapshotsOf asks all at once: each may take its time to answer.
func snapshotsOf(ctx context.Context, all []target) []inspect.Snapshot {
	snapshots := make([]inspect.Snapshot, len(all))
	var asked sync.WaitGroup
	for i, t := range all {
		asked.Go(func() { snapshots[i] = t.Snapshot(ctx) })
	}
	asked.Wait()
	return snapshots
}

// verdict says in a sentence how all of them do.
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
		return cell{Text: number(troubled) + " of " + number(len(snapshots)) + " reconcilers need a look: " +
			number(failing) + " failing, " + number(blocked) + " blocked", Kind: bad}
	case blocked > 0:
		return cell{Text: "Nothing fails, " + number(blocked) + " blocked", Kind: wait}
	}
	return cell{Text: "Nothing fails", Kind: good}
}

// trouble reports whether somebody ought to look at the reconciler.
func trouble(s inspect.Snapshot) bool {
	return len(s.Sharers) > 0 || s.Failing > 0 || len(s.Breakers) > 0 || len(s.Stuck) > 0 || s.PruneFailure != "" || s.Condition == inspect.ConditionStopped
}
