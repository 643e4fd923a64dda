// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Source returns the source of a registry with a name, or nil if there is none.
func Source(registry *inspect.Registry, name string) inspect.Source {
	for _, s := range registry.Sources() {
		if s.Input() == name {
			return s
		}
	}
	return nil
}

// Sources returns the snapshots of the sources of a registry. Their texts are cut to the size of a table's cell.
func Sources(registry *inspect.Registry) []inspect.SourceSnapshot {
	out := []inspect.SourceSnapshot{}
	for _, s := range registry.Sources() {
		x := s.Snapshot()
		problems := make([]string, len(x.Problems))
		for i, problem := range x.Problems {
			problems[i] = text.Cell(problem)
		}
		x.Error, x.Problems = text.Cell(x.Error), problems
		out = append(out, x)
	}
	return out
}

// ApproveSource approves the deletions that a source holds, if they are exactly the set with this name. Without a name
// the error shows the set.
func ApproveSource(ctx context.Context, s inspect.Source, set string) (Done, error) {
	held := s.Snapshot().Held
	switch {
	case held == nil:
		return Done{}, errors.New("no deletions are held, there is nothing to approve")
	case set == "":
		name := text.Plain(s.Input())
		return Done{}, fmt.Errorf("%d of %d rows of %s are to be deleted, such as %s: approve exactly these with reconciler/approve %s %s",
			held.Rows, held.Of, name, text.Printable(strings.Join(held.Examples, ", ")), name, text.Plain(held.Set))
	}
	acting, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	n, err := s.Approve(acting, set)
	if err != nil {
		return Done{}, Overdue(ctx, Patience, err)
	}
	return Done{Source: s.Input(), Action: "approve", Text: ApprovedText(n), Objects: &n}, nil
}

// ApprovedText describes what ApproveSource did.
func ApprovedText(n int) string { return fmt.Sprintf("%d row(s) were deleted", n) }
