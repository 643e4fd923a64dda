// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"strconv"
	"time"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The size of a strip's box. Horizontally a unit is a second, and the box is ten minutes.
const (
	plotWidth  = 600
	plotHeight = 40
	// maxGap is the longest time between two samples, in seconds, that the line bridges.
	maxGap = 2.5
)

// series are the strips, from top to bottom. Each has its own scale: otherwise a hundred thousand failing
// objects would hide three objects in flight.
var series = []struct {
	id, label string
	value     func(inspect.Sample) int
}{
	{"pending", "Pending", func(s inspect.Sample) int { return s.Pending }},
	{"in-flight", "In flight", func(s inspect.Sample) int { return s.InFlight }},
	{"failing", "Failing", func(s inspect.Sample) int { return s.Failing }},
	{"blocked", "Blocked", func(s inspect.Sample) int { return s.Blocked }},
	{"operations", "Operations", func(s inspect.Sample) int { return s.Operations }},
	{"failures", "Failures", func(s inspect.Sample) int { return s.Failures }},
}

// plot draws the samples of the last ten minutes. The right edge is the time at, or the latest sample if
// that is younger than two seconds.
func plot(at time.Time, samples []inspect.Sample) []strip {
	if n := len(samples); n > 0 && at.Sub(samples[n-1].At) < 2*time.Second {
		at = samples[n-1].At
	}
	var shown []inspect.Sample
	for _, s := range samples {
		if age := at.Sub(s.At); age >= 0 && age <= plotWidth*time.Second {
			shown = append(shown, s)
		}
	}
	strips := make([]strip, len(series))
	for i, s := range series {
		strips[i] = draw(at, shown, s.value)
		strips[i].ID, strips[i].Label = s.id, s.label
	}
	return strips
}

func draw(at time.Time, samples []inspect.Sample, value func(inspect.Sample) int) strip {
	if len(samples) == 0 {
		return strip{Now: cell{Text: none}, Most: cell{Text: none}}
	}
	most := 0
	for _, s := range samples {
		most = max(most, value(s))
	}
	var pen pen
	for _, s := range samples {
		// One unit stays free above and below, so that the line is not cut.
		y := plotHeight - 1 - (plotHeight-2)*float64(value(s))/float64(max(most, 1))
		pen.to(plotWidth-at.Sub(s.At).Seconds(), y)
	}
	pen.lift()
	return strip{
		Now:  cell{Text: number(value(samples[len(samples)-1]))},
		Most: cell{Text: number(most)},
		Line: string(pen.line), Area: string(pen.area),
	}
}

// pen writes the data of two paths: a stepped line, and the area under it.
type pen struct {
	line, area []byte
	x, y       float64
	down       bool
}

func (p *pen) to(x, y float64) {
	if p.down && x-p.x > maxGap {
		p.lift()
	}
	if !p.down {
		p.line = point(p.line, 'M', x, y)
		p.area = point(p.area, 'M', x, plotHeight)
		p.area = point(p.area, 'L', x, y)
	} else if y != p.y {
		// A figure keeps its value until the next sample.
		p.line = point(point(p.line, 'L', x, p.y), 'L', x, y)
		p.area = point(point(p.area, 'L', x, p.y), 'L', x, y)
	}
	p.x, p.y, p.down = x, y, true
}

// lift ends the line at the position of the pen.
func (p *pen) lift() {
	if !p.down {
		return
	}
	p.line = point(p.line, 'L', p.x, p.y)
	p.area = append(point(point(p.area, 'L', p.x, p.y), 'L', p.x, plotHeight), 'Z')
	p.down = false
}

func point(path []byte, command byte, x, y float64) []byte {
	path = append(path, command)
	path = strconv.AppendFloat(path, x, 'f', 1, 64)
	path = append(path, ' ')
	return strconv.AppendFloat(path, y, 'f', 1, 64)
}
