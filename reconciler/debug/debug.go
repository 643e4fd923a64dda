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

// WithWrites adds buttons that act on a reconciler or an object, and enables their paths. Without the option they answer
// 403. The page has no login: everyone who can reach it can use the buttons. The paths accept the method POST only, and no
// requests that a browser sends for another site. Their fields are in the address, and they have no body:
//
//	retry, refresh, pause, resume  ?reconciler=NAME&key=KEY, or &all=true for the whole reconciler
//	prune, approve                 ?reconciler=NAME&all=true; approve lets one resync exceed its budget
//	approve                        ?source=NAME&set=SET: deletions that a source holds, if they are exactly this set
//
// The answer is {"reconciler": NAME or "source": NAME, "key": KEY, "action": ACTION, "done": TEXT, "objects": N}, without
// objects if they were not counted.
func WithWrites() Option {
	return func(h *handler) { h.writes = true }
}

// New returns the handler of the page for the reconcilers of a registry. Reconcilers may be added to the
// registry later; nil means an empty registry. The handler reads only the last element of a request's
// path, and all its links are relative: mount it under any path that ends in a slash, with or without
// [http.StripPrefix]. It is safe for concurrent use, and has no goroutine.
//
// Each page is that of a command of package commands, and has its flags as fields and its JSON: for requests with
// ?format=json, or with "Accept: application/json" and without text/html. NAME is a name for [inspect.Registry.Find]; the
// field number tells reconcilers of one name apart ([inspect.Registry.Number]). A button always sends it, so that it never
// acts on a reconciler that has started since the page was loaded. Durations are in nanoseconds.
//
//	./                               {"reconcilers": [Snapshot...], "sources": [SourceSnapshot...]}; no sources if none
//	show?reconciler=NAME             [inspect.Snapshot]
//	objects?reconciler=NAME          [inspect.ObjectPage]; status=Error; limit, 50 by default; after=NEXT
//	explain?reconciler=NAME&key=KEY  [inspect.Explanation]
//	journal?reconciler=NAME          [{"reconciler": NAME, "events": [Operation...]}], the latest last;
//	                                 key=KEY; since=5m or a time; limit, 100 by default, 0 for all;
//	                                 first-failures=true; or rounds=true, with "rounds" in place of "events"
//	plan?reconciler=NAME             [inspect.Plan]; timeout=1m
//	source?source=TABLE/SOURCE       [inspect.SourceSnapshot]
//
// Lists cut each text, except keys, to 300 bytes; explain and show have them in full.
//
// [WithWrites] has the paths that act. An error is {"error": TEXT}, with one of these statuses:
//
//	400  a field is missing, unknown or has a wrong value
//	403  writes are not enabled, the write comes from another site, or the host is not allowed
//	404  there is no such page, reconciler or source
//	405  the method is wrong
//	409  the reconciler could not do it, or is a derivation and has no such thing
//	415  the request has a body
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
