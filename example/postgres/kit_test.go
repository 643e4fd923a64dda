// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/edge"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// tester is the name of the agent in tests.
const tester = "statekeel"

func (o *Object) String() string {
	return strings.TrimSpace(o.Key() + " " + o.Spec + " " + o.Password)
}

// Rows, as parse makes them.
func aRole(name string, options ...string) *Object {
	spec := strings.Join(append(options, "CONNECTION LIMIT -1"), " ")
	return &Object{Kind: role, Name: name, Spec: spec, Password: "PASSWORD NULL"}
}
func aDatabase(name, owner string) *Object  { return &Object{Kind: database, Name: name, Spec: owner} }
func aMembership(member, of string) *Object { return &Object{Kind: membership, Name: of, To: member} }
func aGrant(on, to, privileges string) *Object {
	return &Object{Kind: grant, Name: on, To: to, Spec: privileges}
}

func withPassword(o *Object) *Object {
	stored, server := strings.Repeat("A", 43)+"=", strings.Repeat("B", 43)+"="
	o.Password = "PASSWORD 'SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$" + stored + ":" + server + "'"
	return o
}

func newTable(db *statedb.DB) (statedb.RWTable[*Object], error) {
	return statedb.NewTable(db, "objects", byKey)
}

// states are those of the kit: owners that get and lose privileges, a database that changes hands while its owner goes,
// roles that go with all that needs them.
func states(*rand.Rand) [][]*Object {
	return [][]*Object{
		{
			aRole("app", "LOGIN"), aRole("readers"), aRole("ann", "LOGIN"), aDatabase("shop", "app"),
			aGrant("shop", "readers", "CONNECT"), aMembership("ann", "readers"), aMembership("ann", "pg_monitor"),
		},
		{
			aRole("app", "CREATEDB", "LOGIN"), aRole("readers"), withPassword(aRole("ann")), aDatabase("shop", "readers"),
			aGrant("shop", "app", "CONNECT, TEMPORARY"), aMembership("app", "readers"),
		},
		{aRole("ann", "NOINHERIT", "LOGIN"), aDatabase("shop", "ann")},
		{aRole("app", "LOGIN"), aMembership("app", "pg_monitor")},
	}
}

// outside are changes of a person, as statements. Some are impossible in some states.
var outside = map[string][]string{
	"a role is dropped":             {`REVOKE ALL ON DATABASE "shop" FROM "readers"`, `DROP ROLE "readers"`},
	"a database is dropped":         {`DROP DATABASE "shop"`},
	"a role is renamed":             {`ALTER ROLE "app" RENAME TO "app_old"`},
	"a database is renamed":         {`ALTER DATABASE "shop" RENAME TO "shop_old"`},
	"a role is made a superuser":    {`ALTER ROLE "ann" SUPERUSER`},
	"a database gets another owner": {`ALTER DATABASE "shop" OWNER TO "postgres"`},
	"privileges are taken":          {`REVOKE ALL ON DATABASE "shop" FROM "readers"`},
	"privileges are added":          {`GRANT CREATE ON DATABASE "shop" TO "ann"`},
	"a membership is taken":         {`REVOKE "readers" FROM "ann"`},
	"a membership is added":         {`GRANT "readers" TO "app"`},
}

// theirs is what others have: without a mark, or with that of another agent.
var theirs = [][]string{
	{`CREATE ROLE "their_role"`},
	{`CREATE ROLE "their_app"`, `COMMENT ON ROLE "their_app" IS 'kept by other: app'`},
	{`CREATE DATABASE "their_database"`},
	{`CREATE DATABASE "other_new_shop"`},
	{`ALTER DATABASE "their_database" OWNER TO "their_role"`},
	{`GRANT CONNECT ON DATABASE "their_database" TO "their_app"`},
	{`GRANT "their_role" TO "their_app"`},
}

// start starts the reconciler of the program on a server.
func start(e *reconcilertest.Env[*Object], s Server) {
	cfg := configure(&Operations{server: s, table: e.Table, agent: tester})
	// Zero is that of the subject.
	cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 0 }))
	e.Start(cfg)
}

// withFake is the program with a model of a server.
func withFake() reconcilertest.Subject[*Object, *fake] {
	subject := reconcilertest.Subject[*Object, *fake]{
		Target: func(testing.TB) *fake { return newFake() }, Dump: (*fake).dump, Table: newTable, States: states,
		Start: func(e *reconcilertest.Env[*Object], f *fake) { start(e, f) },
		Foreign: func(f *fake) {
			for _, statements := range theirs {
				f.must(statements...)
			}
		},
		Outside: map[string]func(*fake){}, Runs: long.Times(2000),
	}
	for name, statements := range outside {
		subject.Outside[name] = func(f *fake) { f.try(statements...) }
	}
	return subject
}

func TestAFakeServerEndsAsAFreshStartLeavesIt(t *testing.T) { reconcilertest.Check(t, withFake()) }

func TestARoleWaitsForTheDeletionOfADatabaseThatDidNotGetItsLastOwner(t *testing.T) {
	subject := withFake()
	subject.Plan = `2 1 3; lasting error at "delete grant/app/shop" 1; lasting error at "update role/readers, CREATE ROLE \"readers\"; ` +
		`COMMENT ON ROLE \"readers\" IS 'kept by statekeel: readers'; ALTER ROLE \"readers\" NOSUPERUSER INHERIT NOCREATEROLE ` +
		`NOCREATEDB NOLOGIN NOREPLICATION NOBYPASSRLS VALID UNTIL 'infinity'; ALTER ROLE \"readers\" CONNECTION LIMIT -1 PASSWORD NULL" 1`
	reconcilertest.Check(t, subject)
}

// stepped marks the calls that change a server as steps.
type stepped struct{ Server }

func (s stepped) Exec(ctx context.Context, statements ...string) error {
	return edge.Do(ctx, strings.Join(statements, "; "), func() error { return s.Server.Exec(ctx, statements...) })
}

func TestARealServerEndsAsAFreshStartLeavesIt(t *testing.T) {
	server := theServer(t)
	type target struct {
		*instance
		testing.TB
	}
	subject := reconcilertest.Subject[*Object, target]{
		RealTime: true, Runs: long.Times(20), Timeout: 2 * time.Second, Table: newTable, States: states,
		Target: func(t testing.TB) target {
			server.empty(t)
			return target{server, t}
		},
		Dump: func(s target) map[string]string { return s.dump(s) },
		Start: func(e *reconcilertest.Env[*Object], s target) {
			// Its own: a connection has a goroutine while the server is slow.
			pool, err := pgxpool.New(e.Context(), server.url("postgres", server.port))
			require.NoError(e, err)
			e.Cleanup(pool.Close)
			start(e, stepped{&postgres{pool, tester}})
		},
		Outside: map[string]func(target){},
		Without: []string{"success without effect"}, // PostgreSQL does what it says.
	}
	for name, statements := range outside {
		subject.Outside[name] = func(s target) { _ = s.try(statements...) } // It may be impossible.
	}
	reconcilertest.Check(t, subject)
}
