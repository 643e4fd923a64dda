// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package browsertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience is how long a test waits for what takes a second or two on an idle machine.
const patience = 2 * time.Minute

// browser is the browser of all tests. Each test has its own tab.
var browser context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // chromium has no sandbox for root
		chromedp.Flag("disable-dev-shm-usage", true),
		// For a browser these names are not localhost: over http it sends them no Sec-Fetch-Site.
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"),
	)
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	var quit context.CancelFunc
	browser, quit = chromedp.NewContext(allocator)
	if err := chromedp.Run(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start (apt-get install chromium):", err)
		return 1
	}
	code := m.Run()
	if err := chromedp.Cancel(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not end:", err)
		code = 1
	}
	quit()
	release()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// tab is a tab of the browser. It collects the problems that the browser reports.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// open opens a tab of the given width.
func open(t *testing.T, width int64) *tab {
	ctx, leave := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	b := &tab{T: t, ctx: ctx}
	t.Cleanup(func() { cancel(); leave() })
	chromedp.ListenTarget(ctx, b.hear)
	b.do(chromedp.EmulateViewport(width, 900))
	return b
}

// hear records the problems of a page: messages of the console, such as policy violations and failed loads,
// exceptions and dialogs.
func (b *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			b.note("console: %s", arg.Value)
		}
	case *runtime.EventExceptionThrown:
		b.note("exception: %s", e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		b.note("%s: %s", e.Entry.Source, e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		b.note("dialog: %s", e.Message)
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(false)) }()
	}
}

func (b *tab) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// complaints returns the problems since the last call, and the error that the page shows about its updates.
func (b *tab) complaints() []string {
	b.Helper()
	if pulse := eval[string](b, "document.getElementById('pulse')?.textContent ?? ''"); pulse != "" {
		b.note("page: %s", pulse)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	problems := b.problems
	b.problems = nil
	return problems
}

func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	require.NoError(b, chromedp.Run(b.ctx, actions...))
}

func (b *tab) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
}

// text returns the visible text of the page.
func (b *tab) text() string {
	b.Helper()
	return eval[string](b, "document.body.innerText")
}

// click clicks a link, a button or a summary by its text.
func (b *tab) click(tag, text string) {
	b.Helper()
	b.do(chromedp.Click(fmt.Sprintf("//%s[normalize-space(.)=%q]", tag, text), chromedp.BySearch, chromedp.NodeVisible))
}

// until waits until the page is loaded and a JavaScript expression is true.
func (b *tab) until(expression string) {
	b.Helper()
	require.Eventually(b, func() bool {
		var is bool
		// The evaluation fails while the browser leaves a page.
		return chromedp.Run(b.ctx, chromedp.Evaluate("document.readyState === 'complete' && ("+expression+")", &is)) == nil && is
	}, patience, 50*time.Millisecond, "%s", expression)
}

func eval[T any](b *tab, expression string) T {
	b.Helper()
	var out T
	b.do(chromedp.Evaluate(expression, &out))
	return out
}
