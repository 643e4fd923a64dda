// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is the Server of the program.
type postgres struct {
	pool  *pgxpool.Pool
	agent string
}

//go:embed list.sql
var list string

func (p *postgres) List(ctx context.Context, _ statedb.ReadTxn, yield func(*Object) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	rows, _ := p.pool.Query(ctx, list, markOf(p.agent), unfinishedOf(p.agent)) // CollectRows has the error, too.
	all, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[Object])
	slices.Values(all)(yield)
	return err
}

const names = `
	SELECT coalesce(rolname, datname)::text FROM pg_shdescription
	LEFT JOIN pg_authid r ON classoid = 'pg_authid'::regclass AND objoid = r.oid
	LEFT JOIN pg_database d ON classoid = 'pg_database'::regclass AND objoid = d.oid
	WHERE description = $2 AND (CASE WHEN $1 = 'role' THEN r.oid ELSE d.oid END) IS NOT NULL
	UNION SELECT datname::text FROM pg_database WHERE $1 = 'database' AND datname = $3`

func (p *postgres) Names(ctx context.Context, kind, name string) ([]string, error) {
	rows, _ := p.pool.Query(ctx, names, kind, markOf(p.agent)+name, unfinishedOf(p.agent)+name)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Exec sends the statements as one text: then they are one transaction.
func (p *postgres) Exec(ctx context.Context, statements ...string) error {
	_, err := p.pool.Exec(ctx, strings.Join(statements, "; "))
	return err
}

func quote(name string) string   { return pgx.Identifier{name}.Sanitize() }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// isOneOf reports whether PostgreSQL has refused a statement with one of these codes.
func isOneOf(err error, codes ...string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains(codes, refused.Code)
}
