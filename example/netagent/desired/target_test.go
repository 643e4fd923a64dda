// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// slowTarget has one link, and takes a second to say so.
type slowTarget struct{ Operations[config.Link] }

func (slowTarget) List(_ context.Context, _ statedb.ReadTxn, yield func(*Link) bool) error {
	time.Sleep(time.Second)
	yield(&Link{Spec: config.Link{Name: "br0"}})
	return nil
}

func (slowTarget) Get(context.Context, statedb.ReadTxn, *Link) (*Link, bool, error) {
	time.Sleep(time.Second)
	return &Link{Spec: config.Link{Name: "br0"}}, true, nil
}

// A listing that began before an operation dropped the routes of a link still has them.
func TestWhatAnOperationHasUndoneIsNotFoundByAnEarlierLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config(nil, slowTarget{})
		looks := map[string]func() (found *Link){
			"List": func() (found *Link) {
				require.NoError(t, cfg.Lister.List(t.Context(), nil, func(one *Link) bool {
					found = one
					return true
				}))
				return found
			},
			"Get": func() *Link {
				found, ok, err := cfg.Lister.(dated[config.Link]).Get(t.Context(), nil, nil)
				require.NoError(t, err)
				require.True(t, ok)
				return found
			},
		}
		for name, look := range looks {
			wanted := &Link{Spec: config.Link{Name: "br0"}}
			require.True(t, cfg.Equal(wanted, look()), name)
			before := time.Now()
			found := look()
			for at, equal := range map[time.Duration]bool{-1: true, 0: false, time.Second / 2: false, time.Minute: false} {
				wanted.At = before.Add(at)
				require.Equal(t, equal, cfg.Equal(wanted, found), "%s, undone %s after its beginning", name, at)
			}
		}
	})
}
