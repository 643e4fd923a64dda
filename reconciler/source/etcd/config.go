// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cilium/hive/cell"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler/source"
)

// Defaults of [Config] and [Acks].
const (
	defaultIdentity = "statekeel/identity"
	defaultCheck    = 30 * time.Second
	defaultRelist   = 10 * time.Minute
	defaultBackoff  = time.Second
	defaultPageSize = 1000
	defaultTTL      = 15 * time.Second
)

// Config is the configuration of a [Source].
type Config[Obj any] struct {
	// Client is the connection to etcd. It belongs to the caller, who closes it after Run has ended. Bound
	// the waits of gRPC between its attempts to connect, which grow to two minutes: with
	// grpc.WithConnectParams in DialOptions, as in the example. Set DialKeepAliveTime and
	// DialKeepAliveTimeout: without them gRPC keeps a connection from which nothing comes any more, for
	// as long as the kernel does, which is a quarter of an hour or for ever.
	Client *clientv3.Client
	// Prefix is the prefix of the keys. It must not be empty.
	Prefix string
	// Decode makes an object of a value. key is the key of etcd without the prefix; value must not be
	// changed. An error, a panic, or an object without a primary key makes the key a bad key. Decode is
	// called by the goroutine of Run, without a lock, at every change of a key, and at a list for the keys
	// that have changed or are bad. While it runs nothing else is applied: State and health name a call that
	// hangs.
	Decode func(key string, value []byte) (Obj, error)
	// Sink writes the objects into the table. It belongs to this source alone, and is not closed by it. If it
	// is closed before Run has ended, Run tries to list again and again.
	Sink *source.Sink[Obj]

	// Identity is the key of the random text by which the store is known; empty means "statekeel/identity".
	// All sources of a store may share it; the first one makes it. It must not begin with Prefix. Delete the
	// key after a store was restored from a backup, which has the text, too. If it also has the cluster ID,
	// and has passed the revision and the raft term that the source had seen before the source reads it again,
	// only the next list by time finds the differences.
	Identity string
	// Check is the time between comparisons of the store with what is known of it, and the longest
	// time that an answer of etcd may take. Zero means 30 s. The first comparison is at a random
	// time within it. A comparison without an answer is tried once more, which asks another member if
	// the client has several.
	Check time.Duration
	// Relist is the time between full lists, a safety net. Zero means 10 min. It is shortened by up to
	// a fifth at random.
	Relist time.Duration
	// Backoff bounds the random wait before the first new attempt to connect, and is for how long an
	// attempt waits for the connection. The bound doubles with each attempt that fails, up to ten times
	// Backoff. Zero means 1 s.
	Backoff time.Duration
	// PageSize is the number of keys that a list reads at once. Zero means 1000. It is less for a while
	// after a page that took longer than Check.
	PageSize int

	// Health is told of bad keys, of rows that are held, of a list that failed, and of a Decode that hangs. It must
	// not call the Source, which waits for it, and must not be that of the sink, which is told of the connection.
	// Nil means none.
	Health cell.Health
	// Log gets what the source does besides its work. Nil means none.
	Log *slog.Logger
}

// complete returns the configuration with its defaults, or all that is wrong with it.
func (c Config[Obj]) complete() (Config[Obj], error) {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("Config."+field+" "+format, args...))
	}
	if c.Client == nil {
		wrong("Client", "is nil")
	}
	if c.Prefix == "" {
		wrong("Prefix", "is empty")
	}
	if c.Decode == nil {
		wrong("Decode", "is nil")
	}
	if c.Sink == nil {
		wrong("Sink", "is nil")
	}
	c.Identity = cmp.Or(c.Identity, defaultIdentity)
	if c.Prefix != "" && strings.HasPrefix(c.Identity, c.Prefix) {
		wrong("Identity", "is %q, must not begin with Config.Prefix %q", c.Identity, c.Prefix)
	}
	for field, d := range map[string]time.Duration{"Check": c.Check, "Relist": c.Relist, "Backoff": c.Backoff} {
		if d < 0 {
			wrong(field, "is %s, must not be negative", d)
		}
	}
	if c.PageSize < 0 {
		wrong("PageSize", "is %d, must not be negative", c.PageSize)
	}
	c.Check = cmp.Or(c.Check, defaultCheck)
	c.Relist = cmp.Or(c.Relist, defaultRelist)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.PageSize = cmp.Or(c.PageSize, defaultPageSize)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, errors.Join(errs...)
}
