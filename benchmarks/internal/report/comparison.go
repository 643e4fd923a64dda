// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// comparison is one row of the page: a figure of Statekeel beside that of another contender.
type comparison struct {
	metric series.Metric
	other  string  // "" if no other contender took part
	goal   *answer // nil if there is no goal
	// difference reports whether the goal is about the difference of the two figures.
	difference bool
	// ours is the variant of Statekeel.
	ours string
}

// comparisons returns the rows of one workload: its headline beside the best peer, and its goals.
func comparisons(r *series.Result) []comparison {
	headline := headline(r)
	peer := bestPeer(r)
	var rows []comparison
	shown := false
	add := func(g goal, ours string) {
		if g.workload != r.Workload.Name {
			return
		}
		a, ok := g.answerOf(r, ours)
		if !ok {
			return
		}
		metric, _ := r.Metric(g.metric)
		row := comparison{metric: metric, other: peer, goal: &a, ours: ours}
		if g.against != itself {
			row.other = g.other(r, metric)
			row.difference = g.against.isDifference()
		}
		shown = shown || row.metric == headline && row.other == peer
		rows = append(rows, row)
	}
	ours := r.Workload.Ours()
	for _, g := range goals() {
		add(g, ours)
	}
	if !shown {
		rows = append([]comparison{{metric: headline, other: peer, ours: ours}}, rows...)
	}
	for _, g := range besideGoals() {
		add(g, subject.StatekeelBeside)
	}
	return rows
}

// headline returns the metric that the chart shows of a workload, or the first metric of a
// workload that the chart leaves out.
func headline(r *series.Result) series.Metric {
	if m, known := r.Metric(r.Workload.Headline); known {
		return m
	}
	return r.Metrics[0]
}

// bestPeer returns the contender to compare with where no goal names one; "" if there is none.
// The peers come first, then Statekeel itself with fewer features or on the same rows.
func bestPeer(r *series.Result) string {
	m := headline(r)
	for _, candidates := range [][]string{
		r.Workload.AgainstPeers(),
		{subject.ControllerRuntime, subject.ControllerRuntime8},
		{subject.Crossplane, subject.Crossplane8},
		{subject.Statekeel},
		{subject.StatekeelBare},
		{subject.StatekeelResources},
		{subject.Floor, subject.FloorBeside},
	} {
		if name := r.Best(m, candidates...); name != "" && name != r.Workload.Ours() {
			return name
		}
	}
	return ""
}

// row renders a row of the table. data is the folder that has the data file of the workload.
func (c comparison) row(r *series.Result, data string) string {
	ours := c.ours
	own := figureText(r.Figure(ours, c.metric.Name))
	if ours != subject.Statekeel {
		own += " by " + ours
	}
	other, ratio := "–", "–"
	if c.other != "" && r.Figure(c.other, c.metric.Name).Runs > 0 {
		other = figureText(r.Figure(c.other, c.metric.Name)) + " by " + c.other
		ratio = ratioText(r, ours, c.other, c.metric.Name)
	}
	wanted, verdict := "", ""
	if c.goal != nil {
		wanted, verdict = c.goal.wanted, "met"
		if !c.goal.met {
			verdict = "**" + c.goal.shortfall + "**"
		}
		if c.difference {
			difference, _, _ := strings.Cut(c.goal.measured, " by ")
			verdict += " (" + difference + ")"
		}
	}
	return fmt.Sprintf("| [%s](%s/%s) | %s, %s | %s | %s | %s | %s | %s |", r.Workload.Name, data, dataFile(r),
		c.metric.Name, c.metric.Unit, own, other, ratio, wanted, verdict)
}
