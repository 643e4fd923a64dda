// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// Several kinds: groups, and members of a server that names its group in its first value.

// server keeps a group at "group NAME", and a member at "member NAME", with its group. It refuses what is out of order, and
// does not say who has made an object. The program writes down what is its own at "ours group NAME" and "ours member NAME".
type server struct {
	store
	changed chan struct{} // is closed at the next change
}

func newServer(testing.TB) *server {
	return &server{store: store{data: map[string]string{}}, changed: make(chan struct{})}
}

// change makes one change, which is a step.
func (s *server) change(ctx context.Context, step string, change func() error) error {
	return edge.Do(ctx, step, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.changed)
		s.changed = make(chan struct{})
		return change()
	})
}

// next is closed at the next change.
func (s *server) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// create makes an object, of a group unless that is empty.
func (s *server) create(ctx context.Context, name, group string) error {
	return s.change(ctx, "create "+name, func() error {
		if _, exists := s.data[name]; exists {
			return fmt.Errorf("%s exists", name)
		}
		return s.put(name, group)
	})
}

// move gives a member another group.
func (s *server) move(ctx context.Context, name, group string) error {
	return s.change(ctx, "move "+name, func() error {
		if _, exists := s.data[name]; !exists {
			return fmt.Errorf("%s does not exist", name)
		}
		return s.put(name, group)
	})
}

func (s *server) put(name, group string) error {
	if _, exists := s.data["group "+group]; group != "" && !exists {
		return fmt.Errorf("group %s does not exist", group)
	}
	s.data[name] = group
	return nil
}

// rename gives an object, and its mark, another name.
func (s *server) rename(ctx context.Context, from, to string) error {
	return s.change(ctx, "rename "+to, func() error {
		if _, exists := s.data[to]; exists {
			return fmt.Errorf("%s exists", to)
		}
		for _, mark := range []string{"", "ours "} {
			value, exists := s.data[mark+from]
			if !exists {
				return fmt.Errorf("%s%s does not exist", mark, from)
			}
			s.data[mark+to] = value
			delete(s.data, mark+from)
		}
		return nil
	})
}

// drop drops an object, with its marks.
func (s *server) drop(ctx context.Context, name string, marks ...string) error {
	return s.change(ctx, "drop "+name, func() error {
		group, isGroup := strings.CutPrefix(name, "group ")
		for member, of := range s.data {
			if isGroup && of == group && strings.HasPrefix(member, "member ") {
				return fmt.Errorf("%s has %s", name, member)
			}
		}
		for _, name := range append(marks, name) {
			delete(s.data, name)
		}
		return nil
	})
}

// note writes down that an object is ours, strike ends that.
func (s *server) note(ctx context.Context, name string) error {
	return s.change(ctx, "note "+name, func() error { s.data["ours "+name] = ""; return nil })
}

func (s *server) strike(ctx context.Context, name string) error {
	return s.change(ctx, "strike "+name, func() error { delete(s.data, "ours "+name); return nil })
}

// kinds is a program that keeps groups and members on a server. Without functions it has no bug.
type kinds struct {
	*server
	makes   func(ctx context.Context, name, group string) error
	removes func(ctx context.Context, name string) error
	// needs is what the update of a member waits for, inUse what the deletion of a group waits for.
	needs, inUse func(group string) error
	lists        func(kind string) []string
}

// newKinds returns a program that writes down what it makes before it makes it.
func newKinds(s *server) *kinds {
	k := &kinds{server: s}
	k.makes, k.removes, k.needs, k.inUse, k.lists = k.notedFirst, k.noted, k.applied, k.unused, k.ours
	return k
}

func (k *kinds) notedFirst(ctx context.Context, name, group string) error {
	exists, noted := k.has(name), k.has("ours "+name)
	if exists && !noted {
		return fmt.Errorf("%s is somebody else's", name)
	}
	if !noted {
		if err := k.note(ctx, name); err != nil {
			return err
		}
	}
	return k.set(ctx, name, group)
}

// set makes an object or moves it.
func (k *kinds) set(ctx context.Context, name, group string) error {
	switch of, exists := k.dump()[name]; {
	case !exists:
		return k.create(ctx, name, group)
	case of != group:
		return k.move(ctx, name, group)
	}
	return nil
}

func (k *kinds) noted(ctx context.Context, name string) error {
	if !k.has("ours " + name) {
		return nil
	}
	if err := k.drop(ctx, name); err != nil {
		return err
	}
	return k.strike(ctx, name)
}

func (k *kinds) applied(group string) error {
	next := k.next()
	if !k.has("group " + group) {
		return reconciler.Blocked("group "+group+" does not exist", next)
	}
	return nil
}

func (k *kinds) unused(group string) error {
	next := k.next()
	for name, of := range k.dump() {
		if of == group && strings.HasPrefix(name, "member ") {
			return reconciler.Blocked(name+" is in it", next)
		}
	}
	return nil
}

func (k *kinds) ours(kind string) (names []string) {
	for name := range k.dump() {
		if name, ours := strings.CutPrefix(name, "ours "+kind+" "); ours {
			names = append(names, name)
		}
	}
	return names
}

// groups and members are its operations.
type (
	groups  struct{ *kinds }
	members struct{ *kinds }
)

func (k groups) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return k.makes(ctx, "group "+e.Key, "")
}

func (k groups) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	if err := k.inUse(e.Key); err != nil {
		return err
	}
	return k.kinds.removes(ctx, "group "+e.Key)
}

func (k groups) List(_ context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	return k.list("group", yield)
}

func (k members) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	if err := k.needs(e.Values[0]); err != nil {
		return err
	}
	return k.makes(ctx, "member "+e.Key, e.Values[0])
}

func (k members) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return k.kinds.removes(ctx, "member "+e.Key)
}

func (k members) List(_ context.Context, _ statedb.ReadTxn, yield func(*entry) bool) error {
	return k.list("member", yield)
}

func (k *kinds) list(kind string, yield func(*entry) bool) error {
	for _, name := range k.lists(kind) {
		if !yield(&entry{Key: name}) {
			break
		}
	}
	return nil
}

// ofKinds returns the subject of a program that the function changes at each start.
func ofKinds(change func(k *kinds)) reconcilertest.Subject[*entry, *server] {
	return reconcilertest.Subject[*entry, *server]{
		Target: newServer, Dump: (*server).dump, Table: newEntries, States: list("a b", "b c", "a"),
		Further: []reconcilertest.Further{reconcilertest.Rows[*entry]{
			Table: func(db *statedb.DB) (statedb.RWTable[*entry], error) {
				return statedb.NewTable(db, "members", entryIndex)
			},
			States: list("x=a y=b a=b", "x=b z=c", "a=a y=a"),
		}},
		Start: func(e *reconcilertest.Env[*entry], s *server) {
			k := newKinds(s)
			change(k)
			e.Start(reconciler.Config[*entry]{Operations: groups{k}, Lister: groups{k}, OrphansOnly: true})
			reconcilertest.Start(e, reconciler.Config[*entry]{
				Table: reconcilertest.TableOf[*entry](e), Operations: members{k}, Lister: members{k}, OrphansOnly: true,
			})
		},
		Outside: map[string]func(*server){
			"member a is dropped": func(s *server) {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.data, "member a")
			},
		},
		Without: []string{"success without effect"}, // a server does not answer so
	}
}

// withForeign adds a group and a member of somebody else, which rows want, too.
func withForeign(s reconcilertest.Subject[*entry, *server]) reconcilertest.Subject[*entry, *server] {
	s.States = list("a theirs", "theirs")
	s.Further = []reconcilertest.Further{reconcilertest.Rows[*entry]{
		Table: s.Further[0].(reconcilertest.Rows[*entry]).Table, States: list("x=a", ""),
	}}
	s.Foreign = func(s *server) { s.data["group theirs"] = "" }
	s.Refused = []string{"update theirs"}
	return s
}

func TestProgramsOfSeveralKindsPass(t *testing.T) {
	for name, s := range map[string]reconcilertest.Subject[*entry, *server]{
		"written down first":             ofKinds(func(*kinds) {}),
		"created, marked and named":      ofKinds(marking),
		"with what is somebody else's":   withForeign(ofKinds(func(*kinds) {})),
		"marked, with somebody else's":   withForeign(ofKinds(marking)),
		"in real time":                   inRealTime(ofKinds(func(*kinds) {})),
		"in real time, and none is ours": inRealTime(withForeign(ofKinds(func(*kinds) {}))),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if !s.RealTime {
				s.Runs = long.Times(200)
			}
			reconcilertest.Check(t, s)
		})
	}
}

// inRealTime leaves out late effects: on a busy machine one comes after its object is struck out, which no program can know.
func inRealTime(s reconcilertest.Subject[*entry, *server]) reconcilertest.Subject[*entry, *server] {
	s.RealTime, s.Runs, s.Without = true, 10, append(s.Without, "late effect")
	return s
}

// mark marks an object as ours.
func (s *server) mark(ctx context.Context, name string) error {
	return s.change(ctx, "mark "+name, func() error {
		if _, exists := s.data[name]; !exists {
			return fmt.Errorf("%s does not exist", name)
		}
		s.data["ours "+name] = ""
		return nil
	})
}

// marking is a program on a server where an object has a mark, which goes with it. It makes the object under a name that
// only this program uses, marks it, and gives it its name: what has such a name is its own, also without a mark.
func marking(k *kinds) {
	temporary := func(name string) string { return strings.Replace(name, " ", " new-", 1) }
	drop := func(ctx context.Context, name string) error {
		return k.drop(ctx, name, "ours "+name)
	}
	k.makes = func(ctx context.Context, name, group string) error {
		temporary := temporary(name)
		if k.has(name) {
			if !k.has("ours " + name) {
				return fmt.Errorf("%s is somebody else's", name)
			}
			if k.has(temporary) {
				if err := drop(ctx, temporary); err != nil {
					return err
				}
			}
			return k.set(ctx, name, group)
		}
		if err := k.set(ctx, temporary, group); err != nil {
			return err
		}
		if err := k.mark(ctx, temporary); err != nil {
			return err
		}
		return k.rename(ctx, temporary, name)
	}
	k.removes = func(ctx context.Context, name string) error {
		if temporary := temporary(name); k.has(temporary) {
			if err := drop(ctx, temporary); err != nil {
				return err
			}
		}
		if !k.has("ours " + name) {
			return nil
		}
		return drop(ctx, name)
	}
	k.lists = func(kind string) (names []string) {
		for name := range k.dump() {
			key, ours := strings.CutPrefix(strings.TrimPrefix(name, "ours "), kind+" ")
			if key, isNew := strings.CutPrefix(key, "new-"); ours && (isNew || strings.HasPrefix(name, "ours ")) {
				names = append(names, key)
			}
		}
		return names
	}
}

// takes makes an object, or takes what has its name.
func (k *kinds) takes(ctx context.Context, name, group string) error {
	if err := k.set(ctx, name, group); err != nil || k.has("ours "+name) {
		return err
	}
	return k.mark(ctx, name)
}

// An object is left over: itself, or a group that waits for it, or a row that comes back and takes it for somebody else's.
var left = []string{misbehaves, fresh, converge}

const leftover = `has (group|member) \w: .*, and should not|deletion of "\w": blocked|is somebody else's`

// bugsOfKinds are found by one of the checks, since the two reconcilers take turns as they like. says is a regular
// expression.
var bugsOfKinds = []struct {
	name    string
	change  func(k *kinds)
	foreign bool
	checks  []string
	says    string
}{
	{"a member does not wait for its group", func(k *kinds) {
		k.needs = func(string) error { return nil }
	}, false, []string{others}, `members: "\w": retry .*: group \w does not exist`},
	{"the deletion of a group does not wait for its members", func(k *kinds) {
		k.inUse = func(string) error { return nil }
	}, false, []string{others}, `deletion of "\w": retry`},
	{"a member is made once", func(k *kinds) {
		made := map[string]string{} // of the members
		k.makes = func(ctx context.Context, name, group string) error {
			if group != "" && made[name] == group {
				return nil
			}
			err := k.notedFirst(ctx, name, group)
			if group != "" && err == nil {
				made[name] = group
			}
			return err
		}
		k.removes = func(ctx context.Context, name string) error {
			if strings.HasPrefix(name, "member ") {
				delete(made, name)
			}
			return k.noted(ctx, name)
		}
	}, false, []string{fresh}, "lacks member a"},
	{"members are not listed", func(k *kinds) {
		k.lists = func(kind string) []string {
			if kind == "member" {
				return nil
			}
			return k.ours(kind)
		}
	}, false, left, leftover + `|has ours member \w`},
	{"an object is marked after it has its name", func(k *kinds) {
		k.makes = func(ctx context.Context, name, group string) error {
			if k.has(name) && !k.has("ours "+name) {
				return fmt.Errorf("%s is somebody else's", name)
			}
			return k.takes(ctx, name, group)
		}
	}, false, left, leftover},
	{"what has the name is taken, and is left before it is marked", func(k *kinds) { k.makes = k.takes },
		false, left, leftover},
	{"what has the name is taken, and is somebody else's", func(k *kinds) { k.makes = k.takes },
		true, []string{misbehaves}, "update theirs succeeds, although what it makes is somebody else's"},
	{"an object is written down before somebody has looked for it", func(k *kinds) {
		k.makes = func(ctx context.Context, name, group string) error {
			noted := k.has("ours " + name)
			if !noted {
				if err := k.note(ctx, name); err != nil {
					return err
				}
			}
			if k.has(name) && !noted {
				return errors.Join(fmt.Errorf("%s is somebody else's", name), k.strike(ctx, name))
			}
			return k.set(ctx, name, group)
		}
	}, true, []string{misbehaves}, "update theirs succeeds, although what it makes is somebody else's"},
	{"an object is struck out before it is dropped", func(k *kinds) {
		k.removes = func(ctx context.Context, name string) error {
			if !k.has("ours " + name) {
				return nil
			}
			if err := k.strike(ctx, name); err != nil {
				return err
			}
			return k.drop(ctx, name)
		}
	}, false, left, leftover},
	{"an object is never struck out", func(k *kinds) {
		k.removes = func(ctx context.Context, name string) error {
			if !k.has("ours " + name) {
				return nil
			}
			return k.drop(ctx, name)
		}
	}, false, []string{leaves}, "has ours "},
	{"what is somebody else's is dropped", func(k *kinds) {
		k.removes = func(ctx context.Context, name string) error {
			return errors.Join(k.drop(ctx, name), k.strike(ctx, name))
		}
	}, true, []string{leaves}, "lacks group theirs"},
}

func TestEachBugOfSeveralKindsIsFound(t *testing.T) {
	for _, bug := range bugsOfKinds {
		t.Run(strings.ReplaceAll(bug.name, " ", "_"), func(t *testing.T) {
			s := ofKinds(bug.change)
			if bug.foreign {
				s = withForeign(s)
			}
			failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
			require.NotNil(t, failure)
			require.Contains(t, bug.checks, failure.Check, failure.Text)
			require.Regexp(t, bug.says, failure.Text)
			t.Log(failure.Text)
		})
	}
}

// tracing records its calls.
type tracing struct {
	*store
	table string
}

func (o tracing) call(ctx context.Context, operation string, e *entry) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, operation+" "+o.table+"/"+e.Key)
	return nil
}

func (o tracing) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return o.call(ctx, "update", e)
}

func (o tracing) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, e *entry) error {
	return o.call(ctx, "delete", e)
}

// The way with the keys in reverse is the one in which what needs others comes before them, and goes after them; each table
// is initialised when its rows are there.
func TestRowsOneByOneComeInTheWorstOrder(t *testing.T) {
	var last *store // the target of the latest run
	named := func(name string) func(db *statedb.DB) (statedb.RWTable[*entry], error) {
		return func(db *statedb.DB) (statedb.RWTable[*entry], error) { return statedb.NewTable(db, name, entryIndex) }
	}
	rows := func(name string, states ...string) reconcilertest.Further {
		return reconcilertest.Rows[*entry]{Table: named(name), States: list(states...)}
	}
	reconcilertest.Check(t, reconcilertest.Subject[*entry, *store]{
		Target: func(testing.TB) *store { last = &store{}; return last }, Dump: func(*store) map[string]string { return nil },
		Table: named("one"), States: list("a b", "b", ""),
		Further: []reconcilertest.Further{rows("two", "c d", "d", ""), rows("three", "e", "f", "")}, Plan: "0< 1<",
		Start: func(e *reconcilertest.Env[*entry], s *store) {
			for _, name := range []string{"one", "two", "three"} {
				table := e.DB.GetTable(e.DB.ReadTxn(), name).(statedb.RWTable[*entry])
				_, filled := table.Initialized(e.DB.ReadTxn())
				reconcilertest.Start(e, reconciler.Config[*entry]{Table: table, Operations: tracing{s, name}})
				reconcilertest.Go(e, func(ctx context.Context) error {
					select {
					case <-filled:
						return tracing{s, name}.call(ctx, "initialised", &entry{})
					case <-ctx.Done():
						return nil
					}
				})
			}
		},
	})
	require.Equal(t, []string{
		"update three/e", "initialised three/", "update two/d", "update two/c", "initialised two/",
		"update one/b", "update one/a", "initialised one/",
		"delete one/a", "delete two/c", "delete three/e", "update three/f",
	}, last.calls[:12])
}

func TestTableOfNamesTheTypeThatIsMissing(t *testing.T) {
	reconcilertest.Run(t, newEntries, func(e *reconcilertest.Env[*entry]) {
		of := &fake{TB: e.TB}
		real := e.TB
		e.TB = of
		fatal(real, of, func() { reconcilertest.TableOf[*entry](e) })
		require.Contains(real, of.failed[0], "Subject.Further has %d tables with rows of type %s")
		e.TB = real
	})
}

func TestARefusedCallThatIsNeverMadeFails(t *testing.T) {
	said := failingIn(t, func() {
		s := withForeign(ofKinds(func(*kinds) {}))
		s.Refused, s.Runs = append(s.Refused, "update thiers"), 1
		reconcilertest.Check(t, s)
	})
	require.Contains(t, said, `Subject.Refused: the program has called no ["update thiers"]`)
}
