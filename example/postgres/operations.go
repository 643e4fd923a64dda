// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// The kinds of objects.
const role, database, membership, grant = "role", "database", "membership", "grant"

// Object is something that the server should have, or has. The fields are in the order of list.sql.
type Object struct {
	Kind string
	// Name is that of a role or a database, the role that a membership is in, or the database of a grant. To is the role
	// that is a member, or that has the privileges of a grant.
	Name, To string
	// Spec has the options of a role, the owner of a database, or the privileges of a grant. Password is for roles, and is
	// not shown. Both are as in SQL.
	Spec, Password string
	// As is the name that the server has for it, if that is another one: somebody has renamed it, or it is a database
	// that is not finished. It is empty in rows.
	As string
}

// Key names the object. A group that is not the agent's may have any name, so it is last.
func (o *Object) Key() string {
	if o.To != "" {
		return o.Kind + "/" + o.To + "/" + o.Name
	}
	return o.Kind + "/" + o.Name
}

// Needs returns the roles and databases, without values, that have to be there before this object, and that go after it.
func (o *Object) Needs() []Object {
	switch {
	case o.Kind == database:
		return []Object{{Kind: role, Name: o.Spec}}
	case o.Kind == grant:
		return []Object{{Kind: role, Name: o.To}, {Kind: database, Name: o.Name}}
	case o.Kind == membership && strings.HasPrefix(o.Name, "pg_"): // It is the server's.
		return []Object{{Kind: role, Name: o.To}}
	case o.Kind == membership:
		return []Object{{Kind: role, Name: o.To}, {Kind: role, Name: o.Name}}
	}
	return nil
}

func (o *Object) TableHeader() []string { return []string{"Key", "Spec"} }
func (o *Object) TableRow() []string    { return []string{o.Key(), o.Spec} }

var byKey = statedb.Index[*Object, string]{
	Name: "key", Unique: true, FromKey: index.String, FromString: index.FromString,
	FromObject: func(o *Object) index.KeySet { return index.NewKeySet(index.String(o.Key())) },
}

// configure returns the configuration of the reconciler, but for what only a program has.
func configure(op *Operations) reconciler.Config[*Object] {
	return reconciler.Config[*Object]{
		Table: op.table, Operations: op, Lister: op.server,
		Equal: func(wanted, found *Object) bool { return *wanted == *found },
		Diff:  func(_, found *Object) string { return fmt.Sprintf("it has %q, named %q", found.Spec, found.As) },
		// PostgreSQL refuses to change a database twice at once.
		SerialBy: func(o *Object) string { return map[string]string{database: o.Name, grant: o.Name}[o.Kind] },
		Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) {
			s.Concurrency, s.Timeout, s.BreakerFailures, s.ResyncInterval = 4, 10*time.Second, 10, *resync
			s.ListTimeout = time.Hour // Without the server nothing can be applied, either.
		})},
	}
}

// Server is what the operations do with PostgreSQL.
type Server interface {
	// List yields all that is the agent's.
	reconciler.Lister[*Object]
	// Names returns the names under which the server has a role or a database of the agent: mostly none or one.
	Names(ctx context.Context, kind, name string) ([]string, error)
	// Exec carries out all of the statements, or none.
	Exec(ctx context.Context, statements ...string) error
}

// Operations make a server have what the rows say. They mark roles and databases by a comment, and touch no others.
type Operations struct {
	server Server
	table  statedb.Table[*Object]
	agent  string // its name
}

// Update makes the server have the object.
func (op *Operations) Update(ctx context.Context, txn statedb.ReadTxn, rev statedb.Revision, o *Object) error {
	var needs []error
	for _, need := range o.Needs() {
		_, err := reconciler.NeedApplied[*Object](ctx, txn, nil, byKey.Query(need.Key()), need.Key())
		needs = append(needs, err)
	}
	if err := errors.Join(needs...); err != nil {
		return err
	}
	if o.To != "" {
		revoke, give, err := op.link(ctx, o)
		if err != nil {
			return err
		}
		return op.exec(ctx, o, revoke, give)
	}
	as, err := op.server.Names(ctx, o.Kind, o.Name)
	unfinished := unfinishedOf(op.agent) + o.Name
	switch {
	case err != nil:
		return err
	case len(as) > 1 && slices.Contains(as, unfinished):
		if err := op.exec(ctx, o, "DROP DATABASE "+quote(unfinished)); err != nil {
			return err
		}
		return op.Update(ctx, txn, rev, o)
	case len(as) > 1:
		return fmt.Errorf("the server has %q, all with the comment of %s: change all but one of the comments", as, o.Key())
	}
	name, kind := quote(o.Name), strings.ToUpper(o.Kind)
	if len(as) == 0 && o.Kind == database {
		// The server makes no database in a transaction. One that is not marked yet is known by its name.
		if err := op.exec(ctx, o, "CREATE DATABASE "+quote(unfinished)); err != nil {
			return err
		}
		as = []string{unfinished}
	}
	var do []string
	if len(as) == 0 {
		do = append(do, "CREATE ROLE "+name)
	} else if as[0] != o.Name {
		do = append(do, "ALTER "+kind+" "+quote(as[0])+" RENAME TO "+name)
	}
	do = append(do, "COMMENT ON "+kind+" "+name+" IS "+literal(markOf(op.agent)+o.Name))
	if o.Kind == database {
		owner := quote(o.Spec)
		return op.exec(ctx, o, append(do, "ALTER DATABASE "+name+" OWNER TO "+owner, "GRANT ALL ON DATABASE "+name+" TO "+owner)...)
	}
	return op.exec(ctx, o, append(do,
		"ALTER ROLE "+name+" NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB NOLOGIN NOREPLICATION NOBYPASSRLS VALID UNTIL 'infinity'",
		"ALTER ROLE "+name+" "+o.Spec+" "+o.Password)...)
}

// Delete makes the server not have the object. What others made stays: a role that owns a table is not dropped, nor is a
// database that is in use, and the error says so.
func (op *Operations) Delete(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, o *Object) error {
	needsIt := func(other *Object) bool { return slices.Contains(other.Needs(), Object{Kind: o.Kind, Name: o.Name}) }
	if err := reconciler.NeedDeleted(ctx, nil, needsIt, "an object that needs "+o.Key()); err != nil {
		return err
	}
	if o.Kind == grant {
		of := database + "/" + o.Name
		if row, _, found := op.table.Get(txn, byKey.Query(of)); found && row.Spec == o.To {
			// Its privileges become those of the owner, which it would lose.
			_, err := reconciler.NeedApplied[*Object](ctx, txn, nil, byKey.Query(of), of)
			return err
		}
	}
	if o.To != "" {
		revoke, _, err := op.link(ctx, o)
		if err != nil {
			return err
		}
		return op.remove(ctx, revoke)
	}
	names, err := op.server.Names(ctx, o.Kind, o.Name)
	for _, as := range names {
		err = errors.Join(err, op.remove(ctx, "DROP "+strings.ToUpper(o.Kind)+" "+quote(as)))
	}
	if isOneOf(err, "2BP01") { // dependent_objects_still_exist: a database of the role may be about to go, or to get another owner
		isDatabase := func(other *Object) bool { return other.Kind == database }
		err = errors.Join(err, reconciler.NeedDeleted(ctx, nil, isDatabase, "a database"))
		for other := range op.table.All(txn) {
			if isDatabase(other) {
				_, need := reconciler.NeedApplied[*Object](ctx, txn, nil, byKey.Query(other.Key()), other.Key())
				err = errors.Join(err, need)
			}
		}
	}
	return err
}

// link returns the statements that end and make a membership or a grant, with the names that the server has now.
func (op *Operations) link(ctx context.Context, o *Object) (revoke, give string, err error) {
	kind := map[string]string{membership: role, grant: database}[o.Kind]
	names, err1 := op.server.Names(ctx, kind, o.Name)
	tos, err2 := op.server.Names(ctx, role, o.To)
	name, to := quote(append(names, o.Name)[0]), quote(append(tos, o.To)[0])
	if err = errors.Join(err1, err2); kind == role {
		return "REVOKE " + name + " FROM " + to, "GRANT " + name + " TO " + to, err
	}
	return "REVOKE ALL ON DATABASE " + name + " FROM " + to, "GRANT " + o.Spec + " ON DATABASE " + name + " TO " + to, err
}

// exec carries out statements for an object. If what it needs is missing, although that is applied, somebody has removed it.
func (op *Operations) exec(ctx context.Context, o *Object, statements ...string) error {
	err := op.server.Exec(ctx, statements...)
	switch {
	case isOneOf(err, "42704", "3D000"): // undefined_object, invalid_catalog_name
		for _, need := range o.Needs() {
			err = reconciler.Suspect(ctx, nil, &need, err)
		}
	case isOneOf(err, "42710", "42P04"): // duplicate_object, duplicate_database
		return fmt.Errorf("%w, and is not of this agent: rename one of the two", err)
	}
	return err
}

// remove carries out a statement that removes something. It is no error if that is not there.
func (op *Operations) remove(ctx context.Context, statement string) error {
	err := op.server.Exec(ctx, statement)
	if isOneOf(err, "42704", "3D000") {
		return nil
	}
	return err
}

func markOf(agent string) string       { return "kept by " + agent + ": " }
func unfinishedOf(agent string) string { return agent + "_new_" }
