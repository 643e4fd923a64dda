// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"errors"
	"expvar"
	"fmt"
	"sync"
)

// publishing prevents two calls of PublishExpVar from publishing the same name.
var publishing sync.Mutex

// PublishExpVar returns the ExpVar of the process, whose maps are published as expvar variables:
// reconciliation_count, reconciliation_duration and so on as in [ExpVar.Map], and
// reconciliation_figures. Each call returns the same maps. Maps that are already published under
// these names are used; missing ones are added.
//
// If something other than an *expvar.Map is published under one of the names, it publishes nothing
// and returns an error with those names. It never panics, and may be called from any number of
// goroutines.
func PublishExpVar() (*ExpVar, error) {
	publishing.Lock()
	defer publishing.Unlock()

	m := &ExpVar{root: new(expvar.Map)}
	var errs []error
	all := append(m.variables(), variable{figuresName, &m.FiguresVar})
	for _, v := range all {
		_, err := published(v.name)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, v := range all {
		vars, err := publish(v.name)
		if err != nil {
			return nil, err
		}
		*v.field = vars
		if v.name != figuresName {
			m.root.Set(v.name, vars)
		}
	}
	return m, nil
}

// published returns the map that is published under the name, nil if there is none.
func published(name string) (*expvar.Map, error) {
	switch v := expvar.Get(name).(type) {
	case nil:
		return nil, nil
	case *expvar.Map:
		return v, nil
	default:
		return nil, fmt.Errorf("expvar variable %q is already published as a %T, want a *expvar.Map", name, v)
	}
}

// publish returns the map that is published under the name, or publishes a new one.
func publish(name string) (vars *expvar.Map, err error) {
	if vars, err = published(name); vars != nil || err != nil {
		return vars, err
	}
	// Code that does not use our lock may publish first; then Publish panics.
	defer func() {
		if recover() != nil {
			vars, err = published(name)
		}
	}()
	vars = new(expvar.Map)
	expvar.Publish(name, vars)
	return vars, nil
}
