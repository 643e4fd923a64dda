// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/statekeel/statekeel/internal/tests/long"
)

// TestRandomHistoriesEndAsTheServerIs runs histories of changes, of troubles on the way, and of restarts of the source.
// At the end the table is as the server is, and a list writes nothing.
func TestRandomHistoriesEndAsTheServerIs(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("STATEKEEL_KUBERNETES_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		history(t, seed)
		return
	}
	for range long.Times(12) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			history(t, seed)
		})
	}
}

func history(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	p := newProxy(t, shared)
	f := followMaps(t, p.config("admin"), in)
	var did []string
	defer func() {
		if t.Failed() {
			t.Logf("STATEKEEL_KUBERNETES_SEED=%d: %s\n%s", seed, strings.Join(did, "; "), f.log)
		}
	}()
	// answers is a function that answers some requests, at random.
	answers := func(err *apierrors.StatusError, one int, what ...string) func() {
		source := rand.New(rand.NewPCG(random.Uint64(), 0))
		return func() {
			p.setAnswer(func(r *http.Request) *apierrors.StatusError {
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, name := range what {
					if name == kindOf(r) && source.IntN(one) == 0 {
						return err
					}
				}
				return nil
			})
		}
	}
	all := []string{"cluster", "version", "list", "stream", "watch"}
	steps := []struct {
		often int
		name  string
		do    func()
	}{
		{30, "put", func() {
			var data []string
			for range random.IntN(3) {
				data = append(data, fmt.Sprintf("%d=%d", random.IntN(3), random.IntN(9)))
			}
			m.put(fmt.Sprint("o", random.IntN(6)), data...)
		}},
		{12, "remove", func() { m.remove(fmt.Sprint("o", random.IntN(6))) }},
		{4, "cut", p.cut},
		{2, "close", p.CloseClientConnections},
		{1, "freeze", func() { p.freeze(true) }},
		{2, "hide", func() { p.set(func() { p.hides = true }) }},
		{2, "slow", func() { p.set(func() { p.slow = time.Duration(random.IntN(50)) * time.Millisecond }) }},
		{2, "410", answers(apierrors.NewResourceExpired("too old"), 1, "watch")},
		{2, "429", answers(apierrors.NewTooManyRequests("slow down", 1), 4, all...)},
		{2, "500", answers(apierrors.NewInternalError(errors.New("no")), 2, all...)},
		{2, "no streams", answers(apierrors.NewBadRequest("no"), 1, "stream")},
		{8, "well", func() {
			p.setAnswer(nil)
			p.set(func() { p.slow = 0; p.hides = false })
			p.freeze(false)
		}},
		{3, "restart", func() { f.stop(); f.start() }},
		{8, "wait", func() { time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) }},
	}
	total := 0
	for _, s := range steps {
		total += s.often
	}
	for range 60 {
		n := random.IntN(total)
		for _, s := range steps {
			if n -= s.often; n < 0 {
				did = append(did, s.name)
				s.do()
				break
			}
		}
	}
	p.setAnswer(nil)
	p.set(func() { p.slow = 0; p.hides = false })
	p.freeze(false)
	p.cut() // what is hidden is lost with its connection
	m.followed(f)
	require.NoError(t, f.loaded())
	before := f.revision()
	require.NoError(t, f.loaded(), "listed again")
	require.Equal(t, before, f.revision(), "nothing was written")
	require.Equal(t, m.rows(), f.rows())
	require.True(t, f.sink.State().Connected)
}
