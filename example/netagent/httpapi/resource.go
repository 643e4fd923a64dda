// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// Object is a row as it is served: with its status, if its table has a reconciler.
type Object[S desired.Spec] struct {
	*desired.Row[S]
	Status *reconciler.Status `json:"status,omitempty"`
}

// resource is the HTTP view of one of the tables.
type resource[S desired.Spec] struct {
	table statedb.Table[*desired.Row[S]]
	loop  desired.Loop[S] // nil for a table without a reconciler

	// The rest is nil if the API cannot change the table. key returns the key of a row. parse reads a body, and
	// put stores the objects that parse returned; the first of them is the object in the path.
	key    func(desired.Source, S) string
	parse  func(file string, body []byte) ([]config.Located[S], error)
	put    func([]config.Located[S]) (created bool, err error)
	delete func(key string) error
}

// single makes a parser of one object a parser of a list.
func single[S any](parse func(string, []byte) (config.Located[S], error)) func(string, []byte) ([]config.Located[S], error) {
	return func(file string, body []byte) ([]config.Located[S], error) {
		object, err := parse(file, body)
		return []config.Located[S]{object}, err
	}
}

// first makes a function for one object a function for a list of one.
func first[S any](put func(config.Located[S]) (bool, error)) func([]config.Located[S]) (bool, error) {
	return func(objects []config.Located[S]) (bool, error) { return put(objects[0]) }
}

// serve adds the handlers of a resource.
func serve[S desired.Spec](mux *http.ServeMux, a API, res resource[S]) {
	path := "/v1/" + res.table.Name()
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		objects, txn := []Object[S]{}, a.DB.ReadTxn()
		for row := range res.table.All(txn) {
			objects = append(objects, res.object(txn, row))
		}
		answer(w, http.StatusOK, objects)
	})
	mux.HandleFunc("GET "+path+"/{key...}", func(w http.ResponseWriter, r *http.Request) {
		res.get(w, a.DB.ReadTxn(), r.PathValue("key"), http.StatusOK)
	})
	if res.put == nil {
		return
	}
	mux.HandleFunc("PUT "+path+"/{key...}", func(w http.ResponseWriter, r *http.Request) { res.servePut(w, r, a) })
	mux.HandleFunc("DELETE "+path+"/{key...}", func(w http.ResponseWriter, r *http.Request) {
		if err := res.delete(r.PathValue("key")); err != nil {
			fail(w, codeOf(err), err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (res resource[S]) servePut(w http.ResponseWriter, r *http.Request, a API) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, codeOf(err), err)
		return
	}
	objects, err := res.parse("body", body)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	key := r.PathValue("key")
	if described := res.key(desired.API, objects[0].Spec); described != key {
		fail(w, http.StatusBadRequest, fmt.Errorf("the path is that of %q, the body describes %q", key, described))
		return
	}
	created, err := res.put(objects)
	if err != nil {
		fail(w, codeOf(err), err)
		return
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	res.get(w, a.DB.ReadTxn(), key, code)
}

func (res resource[S]) get(w http.ResponseWriter, txn statedb.ReadTxn, key string, code int) {
	row, _, found := res.table.Get(txn, desired.ByKey[S](key))
	if !found {
		fail(w, http.StatusNotFound, fmt.Errorf("%s %q %w", res.table.Name(), key, desired.ErrNotFound))
		return
	}
	answer(w, code, res.object(txn, row))
}

func (res resource[S]) object(txn statedb.ReadTxn, row *desired.Row[S]) Object[S] {
	if res.loop == nil {
		return Object[S]{Row: row}
	}
	status, _ := desired.StatusOf(res.loop, txn, row)
	return Object[S]{row, &status}
}

// codeOf returns the status code for an error.
func codeOf(err error) int {
	var problems config.Problems
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, desired.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, desired.ErrFromFile):
		return http.StatusConflict
	case errors.As(err, &problems):
		return http.StatusUnprocessableEntity
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}
