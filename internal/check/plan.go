// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package check makes plans of tests that find bugs in operations, and injects the faults of a plan: the ways through
// the states of a table, the faults at the calls of operations and at their steps, and the shorter plan that still fails.
// It knows neither rows nor reconcilers: package reconcilertest runs the plans.
package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Empty is the state without rows.
const Empty = -1

// Step is one step of a plan: the table is brought to a state.
type Step struct {
	// State is the index of the state, or Empty.
	State int
	// Reversed writes the rows one by one, the last key first, in place of all in one transaction.
	Reversed bool
	// Squashed goes on at once with the next step, before the operations of this one have run.
	Squashed bool
}

func (s Step) String() string {
	text := "-"
	if s.State != Empty {
		text = strconv.Itoa(s.State)
	}
	if s.Reversed {
		text += "<"
	}
	if s.Squashed {
		text += "+"
	}
	return text
}

// Fault is what goes wrong at one point: the Nth time, counted from 1, that the point is reached.
type Fault struct {
	Kind  Kind
	Point string
	N     int
	// Outside is the name of the change from outside, for the kind [Outside].
	Outside string
}

func (f Fault) String() string {
	text := fmt.Sprintf("%s at %s %d", f.Kind, strconv.Quote(f.Point), f.N)
	if f.Kind == Outside {
		text += " " + strconv.Quote(f.Outside)
	}
	return text
}

// Plan is one run: steps, and the faults on the way.
type Plan struct {
	Steps  []Step
	Faults []Fault
}

// String returns the plan as [Parse] reads it.
func (p Plan) String() string {
	steps := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		steps[i] = s.String()
	}
	text := strings.Join(steps, " ")
	for _, f := range p.Faults {
		text += "; " + f.String()
	}
	return text
}

// Parse reads a plan for a number of states.
func Parse(text string, states int) (Plan, error) {
	var p Plan
	steps, rest, _ := strings.Cut(text, ";")
	for _, field := range strings.Fields(steps) {
		s, err := parseStep(field, states)
		if err != nil {
			return Plan{}, err
		}
		p.Steps = append(p.Steps, s)
	}
	if len(p.Steps) == 0 {
		return Plan{}, errors.New("the plan has no state")
	}
	for rest = strings.TrimSpace(rest); rest != ""; {
		f, left, err := parseFault(rest)
		if err != nil {
			return Plan{}, err
		}
		p.Faults = append(p.Faults, f)
		rest = strings.TrimSpace(strings.TrimPrefix(left, ";"))
	}
	return p, nil
}

func parseStep(field string, states int) (Step, error) {
	var s Step
	left, squashed := strings.CutSuffix(field, "+")
	left, reversed := strings.CutSuffix(left, "<")
	s.Squashed, s.Reversed = squashed, reversed
	if left == "-" {
		s.State = Empty
		return s, nil
	}
	n, err := strconv.Atoi(left)
	if err != nil || n < 0 || n >= states {
		return s, fmt.Errorf("%q is no state: there are %d", field, states)
	}
	s.State = n
	return s, nil
}

func parseFault(text string) (f Fault, left string, err error) {
	kind, rest, found := strings.Cut(text, " at ")
	at := slices.Index(names[:], kind)
	if !found || at < 0 {
		return f, "", fmt.Errorf("%q does not begin with a kind of fault", text)
	}
	f.Kind = Kind(at)
	if f.Point, rest, err = quoted(rest); err != nil {
		return f, "", err
	}
	number := rest
	if end := strings.IndexAny(rest, " ;"); end >= 0 {
		number = rest[:end]
	}
	rest = rest[len(number):]
	if f.N, err = strconv.Atoi(number); err != nil {
		return f, "", fmt.Errorf("the number of the point: %w", err)
	}
	if f.Kind == Outside {
		f.Outside, rest, err = quoted(strings.TrimSpace(rest))
	}
	return f, strings.TrimSpace(rest), err
}

func quoted(text string) (value, left string, err error) {
	prefix, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("%q does not begin with a quoted text", text)
	}
	value, err = strconv.Unquote(prefix)
	return value, strings.TrimSpace(text[len(prefix):]), err
}

// NeedsRefresh reports whether the operations cannot know of a fault of the plan: then only a refresh repairs it.
func (p Plan) NeedsRefresh() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Lost || f.Kind == Late || f.Kind == Outside })
}

// Last returns the state at the end of the plan.
func (p Plan) Last() int { return p.Steps[len(p.Steps)-1].State }

// Minimise leaves out steps and faults as long as the plan still fails.
func Minimise(p Plan, fails func(Plan) bool) Plan {
	for again := true; again; {
		again = false
		for i := len(p.Faults) - 1; i >= 0; i-- {
			if less := (Plan{p.Steps, slices.Delete(slices.Clone(p.Faults), i, i+1)}); fails(less) {
				p, again = less, true
			}
		}
		for i := len(p.Steps) - 1; i >= 0 && len(p.Steps) > 1; i-- {
			if less := (Plan{slices.Delete(slices.Clone(p.Steps), i, i+1), p.Faults}); fails(less) {
				p, again = less, true
			}
		}
		for i, s := range p.Steps {
			if plain := (Step{State: s.State}); s != plain {
				less := Plan{slices.Clone(p.Steps), p.Faults}
				if less.Steps[i] = plain; fails(less) {
					p, again = less, true
				}
			}
		}
	}
	return p
}
