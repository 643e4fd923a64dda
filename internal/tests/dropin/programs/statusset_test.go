// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// describe tells all of a set but its times and IDs.
func describe(s reconciler.StatusSet) string {
	text := fmt.Sprint("done:", s.IsDone(), " active:", s.IsPendingOrRefreshing())
	for name, status := range s.All() {
		text += fmt.Sprint(" ", name, ":", status.Kind, status.GetError())
	}
	unknown := s.Get("unknown")
	text += fmt.Sprint(" ", unknown.Kind, " like unknown:")
	for _, name := range setNames {
		if status := s.Get(name); status.ID == unknown.ID && status.UpdatedAt.Equal(unknown.UpdatedAt) {
			text += name
		}
	}
	return text
}

var setNames = []string{"a", "b", "c", "d"}

// Each step makes a set from an earlier one, which must stay as it is.
func TestStatusSetAfterRandomSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 1))
		name := func() string { return setNames[random.IntN(len(setNames))] }
		sets := []reconciler.StatusSet{reconciler.NewStatusSet()}
		said := []string{describe(sets[0])}
		for range 300 {
			s := sets[len(sets)-1-random.IntN(min(3, len(sets)))]
			switch random.IntN(7) {
			case 0:
				s = s.Delete(name())
			case 1:
				s = s.Pending()
			case 2:
				s = s.Pending(name(), name())
			case 3:
				s = s.Set(name(), reconciler.StatusError(errors.New("no room")))
			case 4:
				s = s.Set(name(), reconciler.StatusRefreshing())
			default:
				s = s.Set(name(), reconciler.StatusDone())
			}
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Hour))))
			sets, said = append(sets, s), append(said, describe(s))
			transcript(t, "set", describe(s))
			transcript(t, "text", s.String())
		}
		for i, s := range sets {
			assert.Equal(t, said[i], describe(s), "it must not change its receiver")
		}
	})
}

func TestPendingStatusSetHasAFreshID(t *testing.T) {
	done := reconciler.NewStatusSet().Set("a", reconciler.StatusDone())
	pending := done.Pending()
	assert.NotZero(t, pending.Get("a").ID)
	assert.NotEqual(t, done.Get("unknown").ID, pending.Get("a").ID)
	assert.NotEqual(t, pending.Get("a").ID, pending.Pending().Get("a").ID)
	assert.WithinDuration(t, time.Now(), pending.Get("a").UpdatedAt, time.Minute)
}

func TestStatusSetDocuments(t *testing.T) {
	// Local time, as in the statuses that the constructors make.
	at := time.Unix(1, 0)
	failed := reconciler.StatusError(errors.New("no room"))
	failed.UpdatedAt, failed.ID = at, 8
	s := reconciler.NewStatusSet().
		Set("b", reconciler.Status{Kind: reconciler.StatusKindDone, UpdatedAt: at, ID: 7}).Set("a", failed)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	transcript(t, "json", string(text))
	var back reconciler.StatusSet
	require.NoError(t, json.Unmarshal(text, &back))
	again, err := back.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, text, again)
	assert.Equal(t, uint64(7), back.Get("b").ID)
	assert.True(t, at.Equal(back.Get("b").UpdatedAt))

	assert.Error(t, back.UnmarshalJSON([]byte(`["a"]`)))
	require.NoError(t, back.UnmarshalJSON([]byte(`{}`)))
	assert.Empty(t, maps.Collect(back.All()))
	empty, err := back.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `{}`, string(empty))

	value, err := s.MarshalYAML()
	require.NoError(t, err)
	assert.Len(t, value, 2)
	text, err = yaml.Marshal(s)
	require.NoError(t, err)
	var inYAML map[string]reconciler.Status
	require.NoError(t, yaml.Unmarshal(text, &inYAML), "%s", text)
	assert.Equal(t, []string{"a", "b"}, slices.Sorted(maps.Keys(inYAML)))
	assert.Equal(t, reconciler.StatusKindDone, inYAML["b"].Kind)
	assert.True(t, at.Equal(inYAML["a"].UpdatedAt))

	// Inside an object, as in db/show --format=json.
	text, err = json.Marshal(&route{Prefix: "::/0", Others: s})
	require.NoError(t, err)
	transcript(t, "in an object", string(text))
}
