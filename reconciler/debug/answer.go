// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
)

// serve writes the page in the requested format.
func (p *page) serve(w http.ResponseWriter, r *http.Request) {
	switch format := p.form.Get("format"); {
	case format == "live":
		writeJSON(w, http.StatusOK, p.view.live())
	case wantsJSON(r):
		writeJSON(w, http.StatusOK, p.answer.Data)
	case format != "" && format != "html":
		refuse(w, r, failf(http.StatusBadRequest, "format is %q, must be json or html", format))
	default:
		writePage(w, http.StatusOK, p.view)
	}
}

// wantsJSON reports whether the answer must be JSON. Browsers accept text/html, other clients may not.
func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// failure is an error with the HTTP status of its answer.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func failf(status int, format string, args ...any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}

// refuse answers with an error. Its status is that of a failure, or 500 for any other error.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if f := (*failure)(nil); errors.As(err, &f) {
		status = f.status
	}
	if wantsJSON(r) || r.URL.Query().Get("format") == "live" {
		writeJSON(w, status, map[string]string{"error": err.Error()})
		return
	}
	writePage(w, status, view{
		Title: http.StatusText(status),
		Trail: []link{home},
		Lead:  text.Value{Text: text.Printable(err.Error()), Kind: text.KindBad},
	})
}

func writePage(w http.ResponseWriter, status int, v view) {
	var buf bytes.Buffer
	if err := layout.Execute(&buf, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, status, "text/html; charset=utf-8", buf.Bytes())
}

func writeJSON(w http.ResponseWriter, status int, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, status, "application/json", append(encoded, '\n'))
}

// write writes an answer. It ignores the error of the connection: the client is gone then.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
