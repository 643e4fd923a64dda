// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package browsertest

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/debug"
)

const buttons = "Array.from(document.querySelectorAll('form[method=post] button'), b => b.textContent).join()"

func (w *world) condition() string { return string(w.loop.Snapshot(w.Context()).Condition) }

func (w *world) untilCondition(want string) {
	w.Helper()
	require.Eventually(w, func() bool { return w.condition() == want }, patience, 10*time.Millisecond)
}

// Over http a browser sends Sec-Fetch-Site to localhost only; to other hosts it sends Origin.
func TestButtonsWorkWithWrites(t *testing.T) {
	w := newWorld(t, debug.WithWrites(), debug.WithHosts("page.test"))
	w.put("fail-1")
	w.settle()
	for _, name := range []string{"127.0.0.1", "page.test"} {
		b := open(t, 1200)
		b.visit(under(name, w.url("show")))
		assert.Equal(t, "Retry,Refresh,Prune,Pause,Resume", eval[string](b, buttons))
		b.click("summary", "Act on the whole reconciler")
		b.click("button", "Pause")
		b.until("document.querySelector('.note')?.textContent === 'paused, until it is resumed'")
		w.untilCondition("paused")
		b.until("document.getElementById('lead').textContent.startsWith('agent/routes: paused')")
		b.click("summary", "Act on the whole reconciler")
		b.click("button", "Resume")
		b.until("document.querySelector('.note')?.textContent === 'resumed'")
		w.untilCondition("running")

		b.visit(under(name, w.url("explain", "key", "fail-1")))
		b.click("button", "Retry")
		b.until("document.querySelector('.note')?.textContent === '1 object(s) will be retried now'")
		assert.Empty(t, b.complaints())
	}
}

// submit posts a form from the current page, and waits for the answer 403.
func (b *tab) submit(address string) {
	b.Helper()
	eval[any](b, fmt.Sprintf(`(() => {
		const f = document.createElement("form");
		f.method = "post"; f.action = %q;
		document.body.append(f); f.submit();
	})()`, address))
	b.until("document.querySelector('h1')?.textContent === 'Forbidden'")
}

func TestOtherSitesCannotPressTheButtons(t *testing.T) {
	w := newWorld(t, debug.WithWrites(), debug.WithHosts("page.test"))
	w.put("ok")
	w.settle()
	evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(out, "<!doctype html><title>evil</title><iframe src=\"%s\"></iframe>", html.EscapeString(w.url("show")))
	}))
	t.Cleanup(evil.Close)
	posts := 0
	for _, from := range []string{evil.URL, under("evil.test", evil.URL)} {
		for _, to := range []string{w.url("pause"), under("page.test", w.url("pause"))} {
			b := open(t, 1200)
			b.visit(from)
			b.complaints() // the browser reports the forbidden frame
			eval[any](b, fmt.Sprintf(`void fetch(%q, {method: "POST", mode: "no-cors", credentials: "include"}).catch(() => 0)`, to))
			posts++
			require.Eventually(t, func() bool { return len(w.posted()) == posts }, patience, 10*time.Millisecond, "%s to %s", from, to)
			b.submit(to)
			posts++
			for _, post := range w.posted() {
				assert.Equal(t, "403 pause", post, "%s to %s", from, to)
			}
			assert.Len(t, w.posted(), posts)
			assert.Equal(t, "running", w.condition())
		}
	}
}

func TestOtherSitesCannotFrameOrReadThePage(t *testing.T) {
	w := newWorld(t)
	evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(out, "<!doctype html><title>evil</title><iframe src=\"%s\"></iframe>", html.EscapeString(w.root))
	}))
	t.Cleanup(evil.Close)
	b := open(t, 1200)
	b.visit(evil.URL)
	// The browser may say so later than that the page is loaded.
	var complaints string
	for deadline := time.Now().Add(patience); !strings.Contains(complaints, "frame-ancestors"); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), complaints)
		complaints += strings.Join(b.complaints(), "\n")
	}
	eval[any](b, fmt.Sprintf(`void fetch(%q).then(() => document.title = "read", () => document.title = "refused")`, w.root+"?format=json"))
	b.until("document.title !== 'evil'")
	assert.Equal(t, "refused", eval[string](b, "document.title"))
}
