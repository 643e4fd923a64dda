// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxBody bounds the bytes of a request's body, maxKeys the keys of one request.
	maxBody = 1 << 20
	maxKeys = 1000

	formType = "application/x-www-form-urlencoded"
)

// fields are the possible fields of an action. Unknown fields are refused: a misspelled "key" must not
// act on the whole reconciler.
var fields = []string{"reconciler", "table", "nth", "key", "all", "format"}

// readForm returns the fields of an action, from the query and the body. A body that is not a form is
// refused for the same reason as an unknown field.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := checkType(r); err != nil {
		return nil, err
	}
	if err := r.ParseForm(); err != nil {
		return nil, failf(http.StatusBadRequest, "%v", err)
	}
	for name, values := range r.Form {
		if !slices.Contains(fields, name) {
			last := len(fields) - 1
			return nil, failf(http.StatusBadRequest, "unknown field %q, must be %s or %s", name, strings.Join(fields[:last], ", "), fields[last])
		}
		if name != "key" && len(values) > 1 {
			return nil, failf(http.StatusBadRequest, "%s is there %d times, must be there once", name, len(values))
		}
	}
	return r.Form, checkScope(r.Form)
}

// checkType returns an error for a body that [http.Request.ParseForm] would ignore.
func checkType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	if given != "" {
		if kind, _, err := mime.ParseMediaType(given); err != nil || kind != formType {
			return failf(http.StatusUnsupportedMediaType, "content type is %q, must be %s", given, formType)
		}
		return nil
	}
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
		return failf(http.StatusUnsupportedMediaType, "the body has no content type, must be %s", formType)
	}
	return nil
}

// checkScope returns an error unless a form has either keys or all=true.
func checkScope(form url.Values) error {
	keys, all := len(form["key"]), form.Has("all")
	switch {
	case all && form.Get("all") != "true":
		return failf(http.StatusBadRequest, "all is %q, must be true", form.Get("all"))
	case all && keys > 0:
		return failf(http.StatusBadRequest, "key and all are both set")
	case !all && keys == 0:
		return failf(http.StatusBadRequest, "no object is named: key=KEY, or all=true for the whole reconciler")
	case keys > maxKeys:
		return failf(http.StatusBadRequest, "%s keys, must be %s at most", number(keys), number(maxKeys))
	}
	return nil
}
