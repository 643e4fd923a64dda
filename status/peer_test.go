// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	peer "github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/status"
)

// peerKinds pairs our kinds with those of the peer, which has no Blocked.
var peerKinds = map[status.Kind]peer.StatusKind{
	status.KindUnset:      peer.StatusKindUnset,
	status.KindPending:    peer.StatusKindPending,
	status.KindRefreshing: peer.StatusKindRefreshing,
	status.KindDone:       peer.StatusKindDone,
	status.KindError:      peer.StatusKindError,
}

// drawPair draws a status with a past time, and the peer's equivalent.
func drawPair(t *rapid.T) (status.Status, peer.Status) {
	kind := rapid.SampledFrom(allKinds[:len(allKinds)-1]).Draw(t, "kind")
	age := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "age"))
	ours := status.Status{
		Kind:      kind,
		UpdatedAt: time.Now().Add(-age).Round(0),
		ID:        rapid.Uint64().Draw(t, "id"),
	}
	if kind == status.KindError {
		text := rapid.String().Draw(t, "error")
		ours.Error = &text
	}
	return ours, peer.Status{Kind: peerKinds[kind], UpdatedAt: ours.UpdatedAt, Error: ours.Error, ID: ours.ID}
}

func TestStatusReadsLikeThePeers(t *testing.T) {
	checkAtOneTime(t, func(t *rapid.T) {
		ours, theirs := drawPair(t)
		assert.Equal(t, theirs.String(), ours.String())
		assertSameText(t, theirs, ours)
	})
}

// modelNames are more names than a set searches one after the other.
var modelNames = strings.Fields("device route sysctl bpf proxy dns nat lb a b c d")

func TestSetReadsLikeThePeers(t *testing.T) {
	checkAtOneTime(t, func(t *rapid.T) {
		drawName := rapid.SampledFrom(modelNames)
		ours, theirs := status.NewSet(), peer.NewStatusSet()
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(modelNames), 0, 6).Draw(t, "names") {
			ourStatus, theirStatus := drawPair(t)
			ours, theirs = ours.Set(name, ourStatus), theirs.Set(name, theirStatus)
		}
		earlier, was := ours, theirs.String()
		if rapid.Bool().Draw(t, "delete") {
			name := drawName.Draw(t, "deleted")
			ours, theirs = ours.Delete(name), theirs.Delete(name)
		}
		pending := rapid.Bool().Draw(t, "pending")
		if pending {
			names := rapid.SliceOfN(drawName, 0, 4).Draw(t, "pending names")
			ours, theirs = ours.Pending(names...), theirs.Pending(names...)
		}
		assert.Equal(t, was, earlier.String(), "a set that another one is made of stays as it was")
		assert.Equal(t, theirs.IsDone(), ours.IsDone())
		assert.Equal(t, theirs.IsPendingOrRefreshing(), ours.IsPendingOrRefreshing())
		for _, name := range modelNames {
			assert.Equal(t, theirs.Get(name).String(), ours.Get(name).String(), name)
		}
		assert.Equal(t, namesOf(theirs.All()), namesOf(ours.All()))
		assert.Equal(t, theirs.String(), ours.String())
		if !pending { // The texts of Pending sets have different IDs.
			assertSameText(t, theirs, ours)
		}
	})
}

// namesOf returns the names of a set in their order.
func namesOf[Status any](all iter.Seq2[string, Status]) (names []string) {
	for name := range all {
		names = append(names, name)
	}
	return names
}

// checkAtOneTime checks the property in a bubble, where the clock does not move between two reads.
func checkAtOneTime(t *testing.T, property func(*rapid.T)) {
	synctest.Test(t, func(t *testing.T) {
		// Wrapped in another type, because rapid asks a *testing.T for its deadline, which is
		// forbidden in a bubble.
		rapid.Check(struct{ testing.TB }{t}, property)
	})
}

func assertSameText(t require.TestingT, theirs, ours any) {
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		want, err := marshal(theirs)
		require.NoError(t, err)
		got, err := marshal(ours)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
}
