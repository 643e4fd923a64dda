// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler/source"
)

// listing is the prefix at one revision of one store.
type listing struct {
	store    string
	revision int64
	kvs      []*mvccpb.KeyValue
}

// list reads the whole prefix, and makes the table match.
func (s *Source[Obj]) list(ctx context.Context) error {
	s.cfg.Log.Info("Listing", "prefix", s.cfg.Prefix, "why", s.relist)
	l, err := s.read(ctx)
	// A compaction while it is read makes the revision unreadable.
	for again := 0; again < 2 && errors.Is(err, rpctypes.ErrCompacted); again++ {
		l, err = s.read(ctx)
	}
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	if err := s.replace(ctx, l); err != nil {
		return fmt.Errorf("applying the list of revision %d: %w", l.revision, err)
	}
	s.relist = ""
	s.nextList = time.Now().Add(s.cfg.Relist - mathrand.N(s.cfg.Relist/5+1))
	return nil
}

// read reads the prefix in pages. Each page is read together with the identity: another store may have
// the revision, too.
func (s *Source[Obj]) read(ctx context.Context) (listing, error) {
	store, err := s.identify(ctx)
	if err != nil {
		return listing{}, err
	}
	l := listing{store: store}
	size := cmp.Or(s.page, s.cfg.PageSize)
	end := clientv3.GetPrefixRangeEnd(s.cfg.Prefix)
	for from := s.cfg.Prefix; ; {
		began := time.Now()
		page, err := s.call(ctx, clientv3.OpTxn(nil, []clientv3.Op{
			clientv3.OpGet(s.cfg.Identity),
			clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(int64(size)), clientv3.WithRev(l.revision)),
		}, nil))
		// A page that does not come in time may be too large for the connection.
		if s.page = size; errors.Is(err, context.DeadlineExceeded) {
			s.page = max(1, size/4)
		} else if time.Since(began) < s.cfg.Check/4 {
			size = min(2*size, s.cfg.PageSize)
		}
		if err != nil {
			return listing{}, err
		}
		responses := page.Txn().Responses
		if identity := responses[0].GetResponseRange().Kvs; len(identity) == 0 || string(identity[0].Value) != store {
			return listing{}, errors.New("the store was replaced while it was read")
		}
		if l.revision == 0 {
			l.revision = page.Txn().Header.Revision
		}
		keys := responses[1].GetResponseRange()
		l.kvs = append(l.kvs, keys.Kvs...)
		if !keys.More || len(keys.Kvs) == 0 {
			return l, nil
		}
		from = string(keys.Kvs[len(keys.Kvs)-1].Key) + "\x00"
	}
}

// call carries out one operation, which may take as long as Config.Check. It does not use the client's
// KV, which programs may replace.
func (s *Source[Obj]) call(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Check)
	defer cancel()
	return clientv3.NewKV(s.cfg.Client).Do(ctx, op)
}

// identify returns the identity of the store, and makes it if it is missing.
func (s *Source[Obj]) identify(ctx context.Context) (string, error) {
	got, err := s.call(ctx, clientv3.OpGet(s.cfg.Identity))
	if err != nil {
		return "", err
	}
	switch kvs := got.Get().Kvs; {
	case len(kvs) == 0:
	case len(kvs[0].Value) == 0:
		return "", fmt.Errorf("the identity %q of the store is empty: delete the key", s.cfg.Identity)
	default:
		return string(kvs[0].Value), nil
	}
	made := newUUID()
	txn, err := s.call(ctx, clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.cfg.Identity), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(s.cfg.Identity, made)},
		[]clientv3.Op{clientv3.OpGet(s.cfg.Identity)}))
	switch {
	case err != nil:
		return "", fmt.Errorf("making the identity %q of the store: %w", s.cfg.Identity, err)
	case txn.Txn().Succeeded:
		return made, nil
	}
	return string(txn.Txn().Responses[0].GetResponseRange().Kvs[0].Value), nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// replace makes the table match a list.
func (s *Source[Obj]) replace(ctx context.Context, l listing) error {
	known, _ := s.current()
	same := l.store == known && l.revision >= s.revision && !s.isHolding()
	wanted, list, bad := s.decodeAll(l, same)
	if !same {
		// Revisions that the sink publishes from now on are of the other store.
		s.setStore("")
	}
	// Before the revision is published: what is attempted up to it is judged together with these.
	s.setBad(bad, l.revision, same)
	hold, err := s.write(ctx, list, l.revision, same)
	if err != nil {
		return err
	}
	if hold {
		s.hold(l.revision)
	} else {
		s.wanted = wanted
		clear(s.stray)
		s.release()
	}
	s.revision, s.moved = l.revision, l.revision
	s.mu.Lock()
	s.newest = uint64(s.moved)
	s.mu.Unlock()
	s.setStore(l.store)
	s.report()
	return nil
}

// decodeAll returns what the keys of a list want, an object for each row, and the bad keys. A key whose value
// does not decode wants what it wanted before. same reports whether the list is of the same store as what
// was read before.
func (s *Source[Obj]) decodeAll(l listing, same bool) (wanted *wanted[Obj], list []Obj, bad map[string]error) {
	wanted, bad = newWanted(s.cfg.Sink.KeyOf, len(l.kvs)), map[string]error{}
	type listed struct {
		key, row string
		hash     uint64
		obj      Obj
	}
	all, decoded := make([]listed, 0, len(l.kvs)), 0
	for _, kv := range l.kvs {
		key, written := string(kv.Key[len(s.cfg.Prefix):]), kv.ModRevision
		obj, row, err := s.decode(key, kv.Value)
		if err == nil {
			decoded++
		} else {
			bad[key] = err
			old, ok := s.wanted.keys[key]
			if !ok {
				continue
			}
			obj, written = old.obj, old.written
			row, _ = wanted.rowOf(obj)
			if !same {
				written = 0
			}
		}
		all = append(all, listed{key, row, wanted.put(key, obj, row, written), obj})
	}
	if !same && decoded == 0 {
		// Such a list counts as empty: the rows of the bad keys are of the former store.
		return newWanted(s.cfg.Sink.KeyOf, 0), nil, bad
	}
	list = make([]Obj, 0, len(all))
	rivals := map[string][]string{}
	for _, one := range all {
		if wanted.rows[one.hash] == 1 {
			list = append(list, one.obj)
		} else {
			rivals[one.row] = append(rivals[one.row], one.key)
		}
	}
	for _, keys := range rivals {
		winner := wanted.winner(keys)
		list = append(list, wanted.keys[winner].obj)
		for _, key := range keys {
			if key != winner && bad[key] == nil {
				bad[key] = rivalError{winner: s.cfg.Prefix + winner}
			}
		}
	}
	return wanted, list, bad
}

// write has the sink make the table match a list. hold reports whether the sink has refused it, because it
// is empty and the store another one.
func (s *Source[Obj]) write(ctx context.Context, list []Obj, at int64, same bool) (hold bool, err error) {
	if same && len(list) == 0 && len(s.wanted.keys)+len(s.stray) > 0 {
		// The sink refuses an empty list, because a store may lose what it had. This one has not.
		if err := s.remove(ctx, at); err != nil {
			return false, err
		}
		if s.cfg.Sink.State().Rows > 0 {
			return false, nil
		}
		// The empty list completes what was removed: after a call that was not complete no change does.
	}
	_, err = s.cfg.Sink.Replace(ctx, list, uint64(at))
	if errors.Is(err, source.ErrEmpty) {
		return true, nil
	}
	if err = s.applied(ctx, err, at, true); err != nil {
		for _, obj := range list {
			s.noteStray(obj)
		}
	}
	return false, err
}

// hold keeps all rows, although the store has none at a revision.
func (s *Source[Obj]) hold(at int64) {
	s.held, s.heldAt = nil, at
	// Without objects the rows are from before this source.
	holding := s.cfg.Sink.State().Rows
	s.wanted.resetWritten()
	if len(s.wanted.keys) > 0 {
		s.held = make(map[string]struct{}, len(s.wanted.keys))
		for key := range s.wanted.keys {
			s.held[key] = struct{}{}
		}
		holding = len(s.held)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding, s.holds = holding, true
}

// release ends a hold.
func (s *Source[Obj]) release() {
	s.held = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding, s.holds = 0, false
}

// setBad keeps what is bad in a list of a revision. same reports whether the list is of the same store as
// what was read before.
func (s *Source[Obj]) setBad(bad map[string]error, at int64, same bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !same {
		s.former = former{}
	} else if len(s.bad) > 0 {
		s.noteFormer(at)
	}
	s.bad = bad
}

// remove removes all rows.
func (s *Source[Obj]) remove(ctx context.Context, at int64) error {
	changes := make([]source.Change[Obj], 0, len(s.wanted.keys))
	for _, old := range s.wanted.keys {
		changes = append(changes, source.Change[Obj]{Object: old.obj, Deleted: true})
	}
	for _, obj := range s.stray {
		changes = append(changes, source.Change[Obj]{Object: obj, Deleted: true})
	}
	return s.applyChanges(ctx, changes, at)
}
