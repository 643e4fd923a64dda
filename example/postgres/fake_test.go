// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/statedb"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/statekeel/statekeel/reconciler/edge"
)

// fake is a Server that is a model of PostgreSQL: it carries out the statements of the operations, and refuses what
// PostgreSQL refuses.
type fake struct {
	mu sync.Mutex
	catalog
}

// catalog is what a server has. Roles and databases have numbers, so that a new name changes nothing else.
type catalog struct {
	roles     map[int]fakeRole
	databases map[int]fakeDatabase
	members   map[[2]int]bool   // group, member
	grants    map[[2]int]string // database, role
	next      int
}

type fakeRole struct{ name, comment, spec, password string }

type fakeDatabase struct {
	name, comment string
	owner         int
	stripped      bool // the owner lacks a privilege
}

func newFake() *fake {
	f := &fake{catalog: catalog{map[int]fakeRole{}, map[int]fakeDatabase{}, map[[2]int]bool{}, map[[2]int]string{}, 0}}
	for _, name := range []string{"postgres", "pg_monitor"} {
		f.must(`CREATE ROLE "` + name + `"`)
	}
	return f
}

func (c catalog) clone() catalog {
	c.roles, c.databases = maps.Clone(c.roles), maps.Clone(c.databases)
	c.members, c.grants = maps.Clone(c.members), maps.Clone(c.grants)
	return c
}

// Exec is one step: the statements are one transaction.
func (f *fake) Exec(ctx context.Context, statements ...string) error {
	return edge.Do(ctx, strings.Join(statements, "; "), func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		changed := f.clone()
		for _, s := range statements {
			if err := changed.exec(s, len(statements) > 1); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		f.catalog = changed
		return nil
	})
}

// must carries out statements of somebody else.
func (f *fake) must(statements ...string) {
	if err := f.Exec(context.Background(), statements...); err != nil {
		panic(err)
	}
}

// try carries out statements of somebody else, if that is possible now.
func (f *fake) try(statements ...string) { _ = f.Exec(context.Background(), statements...) }

func (f *fake) Names(_ context.Context, kind, name string) (names []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.roles {
		if kind == role && r.comment == markOf(tester)+name {
			names = append(names, r.name)
		}
	}
	for _, d := range f.databases {
		if kind == database && (d.comment == markOf(tester)+name || d.name == unfinishedOf(tester)+name) {
			names = append(names, d.name)
		}
	}
	return names, nil
}

func (f *fake) List(_ context.Context, _ statedb.ReadTxn, yield func(*Object) bool) error {
	f.mu.Lock()
	c := f.catalog.clone()
	f.mu.Unlock()
	var all []*Object
	as := func(is, ours string) string {
		if is == ours {
			return ""
		}
		return is
	}
	roles, databases := map[int]string{}, map[int]string{}
	for id, r := range c.roles {
		if ours, is := strings.CutPrefix(r.comment, markOf(tester)); is {
			roles[id] = ours
			all = append(all, &Object{Kind: role, Name: ours, Spec: r.spec, Password: r.password, As: as(r.name, ours)})
		}
	}
	for id, d := range c.databases {
		ours, is := strings.CutPrefix(d.name, unfinishedOf(tester))
		if !is {
			ours, is = strings.CutPrefix(d.comment, markOf(tester))
		}
		if is {
			databases[id] = ours
			spec := cmp.Or(roles[d.owner], c.roles[d.owner].name)
			if d.stripped {
				spec += " without its privileges"
			}
			all = append(all, &Object{Kind: database, Name: ours, Spec: spec, As: as(d.name, ours)})
		}
	}
	for m := range c.members {
		if member, is := roles[m[1]]; is {
			all = append(all, &Object{Kind: membership, Name: cmp.Or(roles[m[0]], c.roles[m[0]].name), To: member})
		}
	}
	for g, spec := range c.grants {
		if to := roles[g[1]]; to != "" && databases[g[0]] != "" {
			all = append(all, &Object{Kind: grant, Name: databases[g[0]], To: to, Spec: spec})
		}
	}
	slices.Values(all)(yield)
	return nil
}

// dump returns all that the server has.
func (f *fake) dump() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	dump := map[string]string{}
	for _, r := range f.roles {
		dump["role "+r.name] = fmt.Sprintf("%s %s %s", r.spec, r.password, r.comment)
	}
	for _, d := range f.databases {
		dump["database "+d.name] = fmt.Sprintf("of %s, stripped %v, %s", f.roles[d.owner].name, d.stripped, d.comment)
	}
	for m := range f.members {
		dump["member "+f.roles[m[1]].name+" in "+f.roles[m[0]].name] = "yes"
	}
	for g, spec := range f.grants {
		dump["grant of "+f.databases[g[0]].name+" to "+f.roles[g[1]].name] = spec
	}
	return dump
}

// forms are the statements that the model knows; n is a name, t is a text.
var forms = func() map[string]*regexp.Regexp {
	forms := map[string]*regexp.Regexp{}
	for _, form := range []string{
		"CREATE ROLE n", "COMMENT ON ROLE n IS t", "ALTER ROLE n RENAME TO n", "ALTER ROLE n OPTIONS", "DROP ROLE n",
		"CREATE DATABASE n", "COMMENT ON DATABASE n IS t", "ALTER DATABASE n RENAME TO n", "ALTER DATABASE n OWNER TO n",
		"DROP DATABASE n",
		"REVOKE ALL ON DATABASE n FROM n", "GRANT PRIVILEGES ON DATABASE n TO n", "REVOKE n FROM n", "GRANT n TO n",
	} {
		forms[form] = regexp.MustCompile("^" + strings.NewReplacer("n", `"([^"]+)"`, "t", `'([^']*)'`,
			"OPTIONS", `([A-Z].*)`, "PRIVILEGES", `([A-Z, ]+)`).Replace(form) + "$")
	}
	return forms
}()

func refuse(code, format string, args ...any) error {
	return &pgconn.PgError{Severity: "ERROR", Code: code, Message: fmt.Sprintf(format, args...)}
}

func (c *catalog) role(name string) (int, error) {
	for id, r := range c.roles {
		if r.name == name {
			return id, nil
		}
	}
	return 0, refuse("42704", "role %q does not exist", name)
}

func (c *catalog) database(name string) (int, error) {
	for id, d := range c.databases {
		if d.name == name {
			return id, nil
		}
	}
	return 0, refuse("3D000", "database %q does not exist", name)
}

// exec carries out one statement; together is whether there are others in its transaction.
func (c *catalog) exec(statement string, together bool) error {
	for form, re := range forms {
		args := re.FindStringSubmatch(statement)
		if renames := strings.Contains(statement, " RENAME TO "); args != nil && !(renames && form == "ALTER ROLE n OPTIONS") {
			if together && (form == "CREATE DATABASE n" || form == "DROP DATABASE n") {
				return refuse("25001", "cannot run inside a transaction block")
			}
			return c.change(form, args[1:])
		}
	}
	return refuse("42601", "syntax error")
}

func (c *catalog) change(form string, args []string) error {
	c.next++
	ofRole, ofDatabase := strings.Contains(form, " ROLE n"), strings.Contains(form, " DATABASE n")
	var id int
	var err error
	switch {
	case strings.HasPrefix(form, "CREATE"), strings.HasPrefix(form, "GRANT"), strings.HasPrefix(form, "REVOKE"):
	case ofRole:
		id, err = c.role(args[0])
	case ofDatabase:
		id, err = c.database(args[0])
	}
	if err != nil {
		return err
	}
	r, d := c.roles[id], c.databases[id]
	switch form {
	case "CREATE ROLE n":
		if _, err := c.role(args[0]); err == nil {
			return refuse("42710", "role %q already exists", args[0])
		}
		c.roles[c.next] = fakeRole{name: args[0], spec: "CONNECTION LIMIT -1", password: "PASSWORD NULL"}
	case "COMMENT ON ROLE n IS t":
		r.comment = args[1]
		c.roles[id] = r
	case "ALTER ROLE n RENAME TO n":
		if _, err := c.role(args[1]); err == nil {
			return refuse("42710", "role %q already exists", args[1])
		}
		r.name = args[1]
		c.roles[id] = r
	case "ALTER ROLE n OPTIONS":
		c.roles[id] = r.with(args[1])
	case "DROP ROLE n":
		for _, d := range c.databases {
			if d.owner == id {
				return refuse("2BP01", "role %q cannot be dropped: owner of database %s", args[0], d.name)
			}
		}
		for g := range c.grants {
			if g[1] == id {
				return refuse("2BP01", "role %q cannot be dropped: privileges for database %s", args[0], c.databases[g[0]].name)
			}
		}
		maps.DeleteFunc(c.members, func(m [2]int, _ bool) bool { return m[0] == id || m[1] == id })
		delete(c.roles, id)
	case "CREATE DATABASE n":
		if _, err := c.database(args[0]); err == nil {
			return refuse("42P04", "database %q already exists", args[0])
		}
		owner, _ := c.role("postgres")
		c.databases[c.next] = fakeDatabase{name: args[0], owner: owner}
	case "COMMENT ON DATABASE n IS t":
		d.comment = args[1]
		c.databases[id] = d
	case "ALTER DATABASE n RENAME TO n":
		if _, err := c.database(args[1]); err == nil {
			return refuse("42P04", "database %q already exists", args[1])
		}
		d.name = args[1]
		c.databases[id] = d
	case "ALTER DATABASE n OWNER TO n":
		if d.owner, err = c.role(args[1]); err != nil {
			return err
		}
		delete(c.grants, [2]int{id, d.owner}) // joined with what the owner has
		c.databases[id] = d
	case "DROP DATABASE n":
		maps.DeleteFunc(c.grants, func(g [2]int, _ string) bool { return g[0] == id })
		delete(c.databases, id)
	default:
		return c.grant(form, args)
	}
	return nil
}

func (c *catalog) grant(form string, args []string) error {
	what, spec := args[0], ""
	if form == "GRANT PRIVILEGES ON DATABASE n TO n" {
		what, spec = args[1], args[0]
	}
	to, err := c.role(args[len(args)-1])
	if err != nil {
		return err
	}
	if form == "GRANT n TO n" || form == "REVOKE n FROM n" {
		group, err := c.role(what)
		if err != nil {
			return err
		}
		delete(c.members, [2]int{group, to})
		if form == "GRANT n TO n" {
			c.members[[2]int{group, to}] = true
		}
		return nil
	}
	id, err := c.database(what)
	if err != nil {
		return err
	}
	d, key := c.databases[id], [2]int{id, to}
	switch {
	case d.owner == to:
		d.stripped = spec != "ALL" && (spec == "" || d.stripped)
		c.databases[id] = d
	case spec == "":
		delete(c.grants, key)
	case c.grants[key] != "" && c.grants[key] != spec:
		return refuse("XX000", "the model does not join %q and %q", c.grants[key], spec)
	default:
		c.grants[key] = spec
	}
	return nil
}

// flags are the options of roles, in the order in which a listing has them; false is what a new role has.
var flags = append([]string{"SUPERUSER"}, options...)

var option = regexp.MustCompile(`CONNECTION LIMIT (-?\d+)|VALID UNTIL '[^']*'|PASSWORD (NULL|'[^']*')|[A-Z]+`)

// with returns the role with options that are set and unset.
func (r fakeRole) with(text string) fakeRole {
	has := strings.Fields(r.spec)
	limit := r.spec[strings.Index(r.spec, "CONNECTION LIMIT"):]
	for _, o := range option.FindAllStringSubmatch(text, -1) {
		switch positive := strings.TrimPrefix(o[0], "NO"); {
		case o[1] != "":
			limit = o[0]
		case o[2] != "":
			r.password = o[0]
		case strings.HasPrefix(o[0], "VALID UNTIL"):
		case o[0] == "INHERIT":
			has = slices.DeleteFunc(has, func(flag string) bool { return flag == "NOINHERIT" })
		case slices.Contains(flags, o[0]):
			has = append(has, o[0])
		case slices.Contains(flags, positive):
			has = slices.DeleteFunc(has, func(flag string) bool { return flag == positive })
		default:
			panic("unknown option " + o[0])
		}
	}
	var words []string
	for _, flag := range flags {
		if slices.Contains(has, flag) {
			words = append(words, flag)
		}
	}
	r.spec = strings.Join(append(words, limit), " ")
	return r
}
