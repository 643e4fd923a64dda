// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	_ "embed"
	"html/template"
	"net/http"
)

var (
	//go:embed page.html
	markup string
	//go:embed style.css
	style []byte
	//go:embed live.js
	script []byte
	//go:embed icon.svg
	icon []byte
)

var layout = template.Must(template.New("page").Parse(markup))

// files are the files that a page loads, by the last element of their path.
var files = map[string]file{
	"style.css": {"text/css; charset=utf-8", style},
	"live.js":   {"text/javascript; charset=utf-8", script},
	"icon.svg":  {"image/svg+xml", icon},
}

type file struct {
	contentType string
	content     []byte
}

func (f file) serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", f.contentType)
	_, _ = w.Write(f.content)
}
