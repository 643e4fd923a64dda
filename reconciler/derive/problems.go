// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"container/list"
	"errors"
	"fmt"
	"time"
)

// maxExamples bounds the errors that health names.
const maxExamples = 10

// problems are errors by key, in the order in which they began.
type problems struct {
	byKey map[string]*list.Element
	order *list.List
	// version changes whenever an error does.
	version uint64
}

// problem is the error of a key. It never changes.
type problem struct {
	key   string
	err   error
	since time.Time
}

func newProblems() problems { return problems{byKey: map[string]*list.Element{}, order: list.New()} }

// keep sets the error of a key. It returns false if the key has an error with this text already.
func (p *problems) keep(key string, err error, now time.Time) (news bool) {
	if place := p.byKey[key]; place != nil {
		old := place.Value.(*problem)
		if old.err.Error() == err.Error() {
			return false
		}
		place.Value = &problem{key, err, old.since}
	} else {
		p.byKey[key] = p.order.PushBack(&problem{key, err, now})
	}
	p.version++
	return true
}

func (p *problems) forget(key string) {
	if place := p.byKey[key]; place != nil {
		p.order.Remove(place)
		delete(p.byKey, key)
		p.version++
	}
}

// of returns the problem of a key; nil if it has none.
func (p *problems) of(key string) *problem {
	if place := p.byKey[key]; place != nil {
		return place.Value.(*problem)
	}
	return nil
}

func (p *problems) len() int { return p.order.Len() }

// first returns the n oldest problems.
func (p *problems) first(n int) (out []*problem) {
	for place := p.order.Front(); place != nil && len(out) < n; place = place.Next() {
		out = append(out, place.Value.(*problem))
	}
	return out
}

// keys returns the keys of all problems.
func (p *problems) keys() map[string]bool {
	out := make(map[string]bool, p.len())
	for key := range p.byKey {
		out[key] = true
	}
	return out
}

// numErrors returns the number of rows of the input and of the output that are in error. It is called with
// mu held, as errorOf is.
func (d *Derived[In, Out]) numErrors() int { return d.failed.len() + d.wrong.len() }

// errorVersion changes whenever an error does. It is called with mu held.
func (d *Derived[In, Out]) errorVersion() uint64 { return d.failed.version + d.wrong.version }

// errorOf returns the error of an input row, or of the first output row that it wants and that has one;
// nil if there is none.
func (d *Derived[In, Out]) errorOf(key string) *problem {
	if p := d.failed.of(key); p != nil || d.wrong.len() == 0 {
		return p
	}
	for _, x := range d.claims.of(key) {
		if p := d.wrong.of(x.at.key); p != nil {
			return p
		}
	}
	return nil
}

// joined returns the oldest errors of some problems as one; nil if there are none.
func joined(all ...*problems) error {
	var errs []error
	total := 0
	for _, p := range all {
		total += p.len()
		for _, one := range p.first(maxExamples - len(errs)) {
			errs = append(errs, one.err)
		}
	}
	if omitted := total - len(errs); omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}
