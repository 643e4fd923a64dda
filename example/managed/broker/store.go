// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package broker is a tunnel broker: a small outside system that is as difficult as real ones. It keeps
// tunnels in a file, its reads lag behind its writes, and it fails on purpose. Package api describes
// its interface.
package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/statekeel/statekeel/example/managed/api"
)

var (
	tunnelsBucket = []byte("tunnels")
	auditBucket   = []byte("audit")
)

var (
	errNotFound = errors.New("there is no such tunnel")
	errGoing    = errors.New("a tunnel of this name is being deleted")
)

// Store keeps tunnels in a file. It is safe for concurrent use.
type Store struct {
	db  *bbolt.DB
	lag time.Duration
	now func() time.Time
}

// openTimeout bounds the wait for another process that has the file open.
const openTimeout = 5 * time.Second

// Open opens the file, or creates it. Reads lag behind writes by lag; zero means that they do not. Only
// one process at a time may have the file open.
func Open(path string, lag time.Duration) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: openTimeout})
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(tunnelsBucket)
		_, auditErr := tx.CreateBucketIfNotExists(auditBucket)
		return errors.Join(err, auditErr)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %q: %w", path, err), db.Close())
	}
	return &Store{db, lag, time.Now}, nil
}

// Close waits for running calls, and closes the file.
func (s *Store) Close() error { return s.db.Close() }

// record is a tunnel with its true state and the state that reads show.
type record struct {
	Tunnel api.Tunnel
	// Deleted reports whether the tunnel is gone, though reads may still show it.
	Deleted bool
	// Changed is when it changed last. Reads show Before until the lag has passed; nil means no tunnel.
	Changed time.Time
	Before  *api.Settings
}

// seen returns the tunnel as reads show it, false if they show none.
func (s *Store) seen(r record) (api.Tunnel, bool) {
	if s.settled(r) {
		return r.Tunnel, !r.Deleted
	}
	if r.Before == nil {
		return api.Tunnel{}, false
	}
	t := r.Tunnel
	t.Settings = *r.Before
	return t, true
}

func (s *Store) settled(r record) bool { return s.now().Sub(r.Changed) >= s.lag }

// changed returns the record after a change, which reads do not show yet. A change without a difference
// does not extend the lag.
func (s *Store) changed(r record, to api.Settings, deleted bool) record {
	if to == r.Tunnel.Settings && deleted == r.Deleted {
		return r
	}
	if t, ok := s.seen(r); ok {
		r.Before = &t.Settings
	} else {
		r.Before = nil
	}
	r.Tunnel.Settings, r.Deleted, r.Changed = to, deleted, s.now()
	return r
}

// Create creates a tunnel, or returns the existing one of that name. The error is errGoing while reads
// still show a deleted one.
func (s *Store) Create(request api.Request) (t api.Tunnel, created bool, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		old, found, err := load(tx, request.Name)
		switch {
		case err != nil:
			return err
		case found && !old.Deleted:
			t = old.Tunnel
			return count(tx, request.Name, func(a *api.Audit) { a.Repeats++ })
		case found && !s.settled(old):
			return errGoing
		}
		number, err := tx.Bucket(tunnelsBucket).NextSequence()
		if err != nil {
			return err
		}
		t, created = api.Tunnel{
			ID: fmt.Sprintf("tun-%04d", number), Request: request,
			Address: fmt.Sprintf("100.64.%d.%d", number>>8&0xff, number&0xff),
		}, true
		return errors.Join(
			save(tx, record{Tunnel: t, Changed: s.now()}),
			count(tx, request.Name, func(a *api.Audit) { a.Creates++ }),
		)
	})
	return t, created, err
}

// Update changes the settings of a tunnel. The error is errNotFound if no tunnel has the ID.
func (s *Store) Update(id string, settings api.Settings) (t api.Tunnel, err error) {
	err = s.edit(byID(id), func(r record) record { return s.changed(r, settings, false) },
		func(a *api.Audit) { a.Updates++ }, &t)
	return t, err
}

// Delete deletes a tunnel. The error is errNotFound if no tunnel has the ID, or it was deleted before.
func (s *Store) Delete(id string) (t api.Tunnel, err error) {
	err = s.edit(byID(id), func(r record) record { return s.changed(r, r.Tunnel.Settings, true) },
		func(a *api.Audit) { a.Deletes++ }, &t)
	return t, err
}

// Drift changes or loses a tunnel. Reads show it at once. The error is errNotFound if no tunnel has the
// name.
func (s *Store) Drift(d api.Drift) (t api.Tunnel, err error) {
	counted := func(a *api.Audit) { a.Drifts++ }
	if d.Lose {
		counted = func(a *api.Audit) { a.Lost++ }
	}
	err = s.edit(func(r record) bool { return r.Tunnel.Name == d.Name }, func(r record) record {
		r.Changed, r.Deleted = time.Time{}, d.Lose
		if !d.Lose {
			r.Tunnel.Settings = d.Settings
		}
		return r
	}, counted, &t)
	return t, err
}

func byID(id string) func(record) bool {
	return func(r record) bool { return r.Tunnel.ID == id }
}

// edit changes the first tunnel that is not deleted and that chosen selects.
func (s *Store) edit(chosen func(record) bool, change func(record) record, counted func(*api.Audit), t *api.Tunnel) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		all, err := loadAll(tx)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Deleted || !chosen(r) {
				continue
			}
			r = change(r)
			*t = r.Tunnel
			return errors.Join(save(tx, r), count(tx, r.Tunnel.Name, counted))
		}
		return errNotFound
	})
}

// List returns the tunnels that reads show, sorted by name.
func (s *Store) List() (tunnels []api.Tunnel, err error) {
	return s.list(s.seen)
}

// Truth returns the tunnels that exist, sorted by name.
func (s *Store) Truth() (tunnels []api.Tunnel, err error) {
	return s.list(func(r record) (api.Tunnel, bool) { return r.Tunnel, !r.Deleted })
}

func (s *Store) list(show func(record) (api.Tunnel, bool)) (tunnels []api.Tunnel, err error) {
	tunnels = []api.Tunnel{}
	err = s.db.View(func(tx *bbolt.Tx) error {
		all, err := loadAll(tx)
		for _, r := range all {
			if t, ok := show(r); ok {
				tunnels = append(tunnels, t)
			}
		}
		return err
	})
	return tunnels, err
}

// Audit returns the counts of what was done, by name.
func (s *Store) Audit() (map[string]api.Audit, error) {
	all := map[string]api.Audit{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(auditBucket).ForEach(func(name, value []byte) error {
			var a api.Audit
			if err := json.Unmarshal(value, &a); err != nil {
				return fmt.Errorf("audit of %q: %w", name, err)
			}
			all[string(name)] = a
			return nil
		})
	})
	return all, err
}

func load(tx *bbolt.Tx, name string) (r record, found bool, err error) {
	value := tx.Bucket(tunnelsBucket).Get([]byte(name))
	if value == nil {
		return r, false, nil
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return r, false, fmt.Errorf("tunnel %q: %w", name, err)
	}
	return r, true, nil
}

func loadAll(tx *bbolt.Tx) (all []record, err error) {
	err = tx.Bucket(tunnelsBucket).ForEach(func(name, _ []byte) error {
		r, _, err := load(tx, string(name))
		all = append(all, r)
		return err
	})
	return all, err
}

func save(tx *bbolt.Tx, r record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("tunnel %q: %w", r.Tunnel.Name, err)
	}
	return tx.Bucket(tunnelsBucket).Put([]byte(r.Tunnel.Name), value)
}

func count(tx *bbolt.Tx, name string, add func(*api.Audit)) error {
	var a api.Audit
	bucket := tx.Bucket(auditBucket)
	if value := bucket.Get([]byte(name)); value != nil {
		if err := json.Unmarshal(value, &a); err != nil {
			return fmt.Errorf("audit of %q: %w", name, err)
		}
	}
	add(&a)
	value, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("audit of %q: %w", name, err)
	}
	return bucket.Put([]byte(name), value)
}
