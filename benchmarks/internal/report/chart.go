// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// The measures of the chart, in SVG units.
const (
	chartWidth = 960
	rowHeight  = 26
	plotLeft   = 168
	plotRight  = 640
	plotTop    = 74
)

// chartStyle follows the reader's light or dark setting. It has plain classes, as some renderers do not
// support variables.
const chartStyle = `
    .ground { fill: #ffffff } .text { fill: #1f2328 } .muted { fill: #59636e } .bound { opacity: .55 }
    .better { fill: #1a7f37 } .worse { fill: #bc4c00 } .grid { stroke: #d1d9e0 } .one, .range { stroke: #1f2328 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117 } .text { fill: #f0f6fc } .muted { fill: #9198a1 }
      .better { fill: #3fb950 } .worse { fill: #db6d28 } .grid { stroke: #3d444d } .one, .range { stroke: #f0f6fc }
    }
    text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
    .title { font-size: 17px; font-weight: 600 } .strong { font-weight: 600 } .small { font-size: 11px }
  `

// bar is a row of the chart: by what factor Statekeel is better than the peer.
type bar struct {
	label, figures  string
	least, mid, top float64 // 1 is as good as the peer
	bound           bool    // mid is a lower bound
}

// Chart writes an SVG of the factor by which Statekeel is better than the peer in the headline of each
// workload. Workloads that one of them did not run are left out.
func (p Page) Chart(w io.Writer) error {
	var bars []bar
	for _, r := range p.Results {
		if b, ok := barOf(r); ok {
			bars = append(bars, b)
		}
	}
	scale := newLogScale(bars)
	height := plotTop + rowHeight*len(bars) + 24

	out := &writer{to: w}
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title about">
  <title id="title">Statekeel beside statedb/reconciler</title>
  <desc id="about">%s</desc>
  <style>%s</style>
  <rect class="ground" width="%d" height="%d"/>
`, chartWidth, height, html.EscapeString(summary(bars)), chartStyle, chartWidth, height)
	out.printf("  <text class=\"text title\" x=\"16\" y=\"28\">How many times better than statedb/reconciler</text>\n")
	out.printf("  <text class=\"muted\" x=\"16\" y=\"48\">%s</text>\n", html.EscapeString(p.subtitle()))
	scale.draw(out, height)
	for i, b := range bars {
		b.draw(out, scale, plotTop+rowHeight*i)
	}
	out.printf("</svg>\n")
	return out.err
}

func (p Page) subtitle() string {
	s := "Medians on a log scale; a line spans the runs; at the right, Statekeel vs the peer."
	if p.Quick {
		s = "A QUICK SERIES, for a first look only. " + s
	}
	return s
}

// summary is the text of the chart, for readers who cannot see it.
func summary(bars []bar) string {
	lines := make([]string, 0, len(bars))
	for _, b := range bars {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", b.label, b.times(), b.figures))
	}
	return strings.Join(lines, "; ")
}

func barOf(r *series.Result) (bar, bool) {
	metric, known := r.Metric(r.Workload.Headline)
	own := r.Workload.Ours()
	if !known || !r.Has(own) {
		return bar{}, false
	}
	peer := r.Best(metric, r.Workload.AgainstPeers()...)
	ratio := r.Ratio(own, peer, metric.Name)
	ours, theirs := r.Figure(own, metric.Name), r.Figure(peer, metric.Name)
	if ratio.Runs == 0 || ratio.Min <= 0 {
		return bar{}, false
	}
	b := bar{
		label:   r.Workload.Name,
		figures: fmt.Sprintf("%s vs %s %s", figureText(ours), figureText(theirs), metric.Unit),
		least:   ratio.Min, mid: ratio.Median, top: ratio.Max,
		bound: theirs.AtLeast,
	}
	if metric.Better == workload.Less {
		b.least, b.mid, b.top = 1/ratio.Max, 1/ratio.Median, 1/ratio.Min
	}
	return b, true
}

func (b bar) times() string {
	s := number(b.mid) + "×"
	if b.bound {
		s = "≥ " + s
	}
	return s
}

func (b bar) draw(out *writer, scale logScale, top int) {
	base, middle := top+17, float64(top)+13
	from, to := scale.at(1), scale.at(b.mid)
	class := "better"
	if b.mid < 1 {
		from, to, class = to, from, "worse"
	}
	if b.bound {
		class += " bound"
	}
	out.printf("  <text class=\"text\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", plotLeft-10, base, html.EscapeString(b.label))
	out.printf("  <rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"16\" rx=\"2\"/>\n", class, from, top+5, math.Max(to-from, 1))
	out.printf("  <line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke-width=\"1.5\"/>\n",
		scale.at(b.least), scale.at(b.top), middle, middle)
	out.printf("  <text class=\"text strong\" x=\"%.1f\" y=\"%d\">%s</text>\n",
		math.Max(scale.at(b.top), scale.at(1))+8, base, html.EscapeString(b.times()))
	out.printf("  <text class=\"muted small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
		chartWidth-16, base, html.EscapeString(b.figures))
}

// logScale maps factors to positions in the plot.
type logScale struct{ low, high float64 } // decimal logarithms

// newLogScale spans all bars, the factor 1, and at least half a decade to the right, so that small
// differences do not fill the plot.
func newLogScale(bars []bar) logScale {
	s := logScale{low: 0, high: 0.5}
	for _, b := range bars {
		s.low = math.Min(s.low, math.Log10(b.least))
		s.high = math.Max(s.high, math.Log10(b.top))
	}
	s.low -= 0.05
	return s
}

func (s logScale) at(factor float64) float64 {
	// The label of the longest bar needs some space to its right.
	const room = 72
	return plotLeft + (math.Log10(factor)-s.low)/(s.high-s.low)*(plotRight-room-plotLeft)
}

func (s logScale) draw(out *writer, height int) {
	for exponent := math.Ceil(s.low); exponent <= s.high; exponent++ {
		factor := math.Pow(10, exponent)
		class := "grid"
		if exponent == 0 {
			class = "one"
		}
		x := s.at(factor)
		out.printf("  <line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", class, x, x, plotTop-4, height-20)
		out.printf("  <text class=\"muted small\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g×</text>\n", x, height-6, factor)
	}
}
