// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/statekeel/statekeel/example/managed/api"
)

// NewHandler returns the broker's HTTP interface to a store. Faults affect only the owner's API. The
// error names every invalid fault.
func NewHandler(store *Store, faults Faults) (http.Handler, error) {
	if err := faults.Validate(); err != nil {
		return nil, err
	}
	s := &server{store}
	owner := http.NewServeMux()
	owner.HandleFunc("POST /v1/tunnels", s.create)
	owner.HandleFunc("GET /v1/tunnels", s.list)
	owner.HandleFunc("PUT /v1/tunnels/{id}", s.update)
	owner.HandleFunc("DELETE /v1/tunnels/{id}", s.delete)

	mux := http.NewServeMux()
	mux.Handle("/v1/", newFaulty(faults, owner))
	mux.HandleFunc("GET /admin/tunnels", s.truth)
	mux.HandleFunc("GET /admin/audit", s.audit)
	mux.HandleFunc("POST /admin/drift", s.drift)
	return mux, nil
}

type server struct{ store *Store }

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	var request api.Request
	if !read(w, r, &request) || !valid(w, request.Settings) {
		return
	}
	if request.Name == "" || request.Owner == "" {
		answer(w, http.StatusBadRequest, api.Problem{Error: "name and owner are needed"})
		return
	}
	t, created, err := s.store.Create(request)
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	reply(w, code, t, err)
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	all, err := s.store.List()
	chosen := []api.Tunnel{}
	owner, name := r.FormValue("owner"), r.FormValue("name")
	for _, t := range all {
		if (owner == "" || t.Owner == owner) && (name == "" || t.Name == name) {
			chosen = append(chosen, t)
		}
	}
	reply(w, http.StatusOK, chosen, err)
}

func (s *server) update(w http.ResponseWriter, r *http.Request) {
	var settings api.Settings
	if !read(w, r, &settings) || !valid(w, settings) {
		return
	}
	t, err := s.store.Update(r.PathValue("id"), settings)
	reply(w, http.StatusOK, t, err)
}

func (s *server) delete(w http.ResponseWriter, r *http.Request) {
	t, err := s.store.Delete(r.PathValue("id"))
	reply(w, http.StatusAccepted, t, err)
}

func (s *server) truth(w http.ResponseWriter, _ *http.Request) {
	all, err := s.store.Truth()
	reply(w, http.StatusOK, all, err)
}

func (s *server) audit(w http.ResponseWriter, _ *http.Request) {
	all, err := s.store.Audit()
	reply(w, http.StatusOK, all, err)
}

func (s *server) drift(w http.ResponseWriter, r *http.Request) {
	var d api.Drift
	if !read(w, r, &d) {
		return
	}
	t, err := s.store.Drift(d)
	reply(w, http.StatusOK, t, err)
}

// maxBody is the longest body of a request, in bytes.
const maxBody = 1 << 16

// read reads the body of a request. If it cannot, it answers with an error and returns false. It
// accepts only JSON, because a web page can send other types here without a preflight request.
func read(w http.ResponseWriter, r *http.Request, to any) bool {
	if contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || contentType != "application/json" {
		answer(w, http.StatusUnsupportedMediaType, api.Problem{Error: "the body must be application/json"})
		return false
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		answer(w, http.StatusBadRequest, api.Problem{Error: err.Error()})
		return false
	}
	return true
}

// valid reports whether settings are acceptable. If not, it answers with an error.
func valid(w http.ResponseWriter, settings api.Settings) bool {
	var errs []error
	if _, err := netip.ParseAddr(settings.Remote); err != nil {
		errs = append(errs, fmt.Errorf("remote %q is not an address", settings.Remote))
	}
	if settings.Bandwidth < 1 || settings.Bandwidth > api.MaxBandwidth {
		errs = append(errs, fmt.Errorf("bandwidth %d is not from 1 to %d", settings.Bandwidth, api.MaxBandwidth))
	}
	if err := errors.Join(errs...); err != nil {
		answer(w, http.StatusUnprocessableEntity, api.Problem{Error: err.Error()})
		return false
	}
	return true
}

// reply answers with a value, or with the error of the store.
func reply(w http.ResponseWriter, code int, value any, err error) {
	switch {
	case err == nil:
		answer(w, code, value)
	case errors.Is(err, errNotFound):
		answer(w, http.StatusNotFound, api.Problem{Error: err.Error()})
	case errors.Is(err, errGoing):
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		answer(w, http.StatusConflict, api.Problem{Error: err.Error()})
	default:
		answer(w, http.StatusInternalServerError, api.Problem{Error: err.Error()})
	}
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error means that the client is gone.
	_ = json.NewEncoder(w).Encode(value)
}
