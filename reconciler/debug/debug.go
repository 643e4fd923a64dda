// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net/http"
	"strings"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Option is an option of [New].
type Option func(*handler)

// WithWrites adds buttons that act on a reconciler or an object, and enables their paths: retry,
// refresh, prune, approve, pause and resume. The paths accept the method POST only, and no requests that
// a browser sends for another site. Without the option they answer 403. The page has no login: everyone
// who can reach it can use the buttons.
func WithWrites() Option {
	return func(h *handler) { h.writes = true }
}

// New returns the handler of the page for the reconcilers of a registry. Reconcilers may be added to the
// registry later; nil means an empty registry. The handler reads only the last element of a request's
// path, and all its links are relative: mount it under any path that ends in a slash, with or without
// [http.StripPrefix]. It is safe for concurrent use, and has no goroutine.
func New(registry *inspect.Registry, opts ...Option) http.Handler {
	if registry == nil {
		registry = &inspect.Registry{}
	}
	h := &handler{registry: registry, commands: operator.Commands()}
	for _, opt := range opts {
		opt(h)
	}
	return h
}

type handler struct {
	registry *inspect.Registry
	commands []operator.Command
	writes   bool
	// hosts are the hosts of [WithHosts]; nil without the option.
	hosts   map[string]bool
	origins http.CrossOriginProtection
}

// command returns the command with a name; nil if there is none.
func (h *handler) command(name string) *operator.Command {
	for i := range h.commands {
		if h.commands[i].Name == name {
			return &h.commands[i]
		}
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if err := h.checkHost(r); err != nil {
		refuse(w, r, err)
		return
	}
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	command, file := h.command(name), files[name]
	if name == "source" {
		command = h.command("show")
	}
	switch {
	case command == nil && file.content == nil:
		refuse(w, r, failf(http.StatusNotFound, "no page %q", name))
	case command != nil && command.Label != "":
		h.act(w, r, command)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, failf(http.StatusMethodNotAllowed, "method is %s, must be GET or HEAD", r.Method))
	case command == nil:
		file.serve(w)
	default:
		p, err := h.ask(r, command, name == "source")
		if err != nil {
			refuse(w, r, err)
			return
		}
		p.serve(w, r)
	}
}

// policy is the content security policy. The page may load only what this handler serves. It has no
// inline script or style, no other page may frame it, and scripts cannot turn text into markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// With no-referrer a browser would send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
}
