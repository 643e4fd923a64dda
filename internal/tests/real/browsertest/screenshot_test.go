// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package browsertest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/debug"
)

// With UPDATE_SCREENSHOT set the test replaces the picture in docs.
func TestScreenshot(t *testing.T) {
	const waves, apart = 4, 500 * time.Millisecond
	w := newWorldOf(t, kernel{takes: 4 * time.Millisecond}, debug.WithWrites())
	b := open(t, 1200)
	b.visit(w.url("show"))
	for wave := range waves {
		w.put(many("10.0.%d.0/24", wave*10_000, (wave%3+1)*2000)...)
		switch wave {
		case waves / 4:
			w.put(many("10.1.%d.0/24-fail", 0, 40)...)
		case waves / 2:
			w.put(many("10.2.%d.0/24-blocked", 0, 25)...)
		case 3 * waves / 4:
			w.remove(many("10.1.%d.0/24-fail", 0, 28)...)
		}
		b.do(chromedp.Sleep(apart))
	}
	w.put(many("10.3.%d.0/24", 0, 1500)...)
	b.until(figure("failing") + " !== '0' && " + figure("unseen") + " !== 'about 0 changes'")
	var picture []byte
	b.do(chromedp.FullScreenshot(&picture, 100))
	require.Equal(t, "\x89PNG", string(picture[:4]))
	if os.Getenv("UPDATE_SCREENSHOT") != "" {
		require.NoError(t, os.WriteFile("../../../../docs/debug-page.png", picture, 0o644))
	}
	assert.Empty(t, b.complaints())
}

// many returns n names with consecutive numbers.
func many(format string, from, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(format, from+i)
	}
	return names
}
