// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net/http"
	"strings"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Option changes what [New] makes.
type Option func(*handler)

// WithWrites adds the buttons that act on a reconciler or an object, and opens the paths
// behind them: retry, refresh, prune, approve, pause and resume. They take POST only, and
// nothing that a browser sends on behalf of another site. Without the option they answer 403.
// The page asks for no password: all who reach it may push the buttons.
func WithWrites() Option {
	return func(h *handler) { h.writes = true }
}

// New returns the page for the reconcilers of a registry, those that are added later
// among them; nil is as an empty registry. Only the last element of a request's path
// counts, and all links are relative: mount it under any path that ends in a slash, by
// [http.StripPrefix] or without. It is safe for concurrent use, has no goroutine of its
// own, and does nothing while nobody asks.
func New(registry *inspect.Registry, opts ...Option) http.Handler {
	if registry == nil {
		registry = &inspect.Registry{}
	}
	h := &handler{registry: registry}
	for _, opt := range opts {
		opt(h)
	}
	h.pages = map[string]page{
		"":        h.overview,
		"show":    h.show,
		"objects": h.objects,
		"explain": h.explain,
		"journal": h.journal,
	}
	return h
}

// page answers a request that changes nothing.
type page func(*http.Request) (answer, error)

type handler struct {
	registry *inspect.Registry
	writes   bool
	// hosts are those of [WithHosts]; nil without the option.
	hosts   map[string]bool
	pages   map[string]page
	origins http.CrossOriginProtection
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if err := h.checkHost(r); err != nil {
		refuse(w, r, err)
		return
	}
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if act, ok := actions[name]; ok {
		h.act(w, r, act)
		return
	}
	page, isPage := h.pages[name]
	file, isFile := files[name]
	switch {
	case !isPage && !isFile:
		refuse(w, r, failf(http.StatusNotFound, "no page %q", name))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, failf(http.StatusMethodNotAllowed, "method is %s, must be GET or HEAD", r.Method))
	case isFile:
		file.serve(w)
	default:
		a, err := page(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		a.serve(w, r)
	}
}

// policy lets the page load what this handler serves and nothing else: no inline script
// or style, no frame around it, and no way for a script to make markup out of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// With no-referrer a browser sends "Origin: null" with our own forms, too.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
}
