// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/reconciler/source/files"
)

// content is what a file of the folder says: see roles/shop.yaml.
type content struct {
	Roles []struct {
		Name, Password string
		Options, In    []string
		Limit          *int
	}
	Databases []struct {
		Name, Owner string
		Grants      map[string][]string
	}
}

var (
	// options and privileges are in the order in which list.sql has them.
	options    = []string{"NOINHERIT", "CREATEROLE", "CREATEDB", "LOGIN", "REPLICATION", "BYPASSRLS"}
	privileges = []string{"CONNECT", "CREATE", "TEMPORARY"}

	roleName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,62}$`)
	// A database that is not finished has the name of the agent before its own.
	databaseName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,41}$`)
	agentName    = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
	// The server would make a verifier of any other text, a different one each time. psql's \password makes these.
	verifier = regexp.MustCompile(`^(SCRAM-SHA-256\$\d+:[\w+/=]+\$[\w+/=]{44}:[\w+/=]{44})?$`)
)

// parse returns the objects of a file. The error has a line for each thing that is wrong.
func parse(name string, data []byte) ([]files.Entry[*Object], error) {
	var f content
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: write {} for nothing")
	} else if err := errors.Join(err, yaml.Unmarshal(data, &root)); err != nil {
		return nil, errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "line ", name+":"))
	}
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		return nil, errors.New("the file goes on after ---: make that a file of its own")
	}
	p := &parser{file: name, seen: map[string]bool{}}
	for i, r := range f.Roles {
		p.line, p.column = position(&root, "roles", i)
		limit := -1
		if r.Limit != nil {
			limit = *r.Limit
		}
		p.check(roleName.MatchString(r.Name) && !strings.HasPrefix(r.Name, "pg_"), "no name of a role: %q", r.Name)
		p.check(limit >= -1, "the limit of role %q is %d, must be -1 for none, or more", r.Name, limit)
		p.check(verifier.MatchString(r.Password), "the password of role %q must be a verifier, SCRAM-SHA-256$...", r.Name)
		o := &Object{Kind: role, Name: r.Name, Password: "PASSWORD NULL"}
		if r.Password != "" {
			o.Password = "PASSWORD " + literal(r.Password)
		}
		o.Spec = strings.Join(append(p.sorted(r.Options, options), fmt.Sprint("CONNECTION LIMIT ", limit)), " ")
		p.add(o)
		for _, group := range r.In {
			p.check(roleName.MatchString(group) && group != r.Name, "role %q cannot be in %q", r.Name, group)
			p.add(&Object{Kind: membership, Name: group, To: r.Name})
		}
	}
	for i, d := range f.Databases {
		p.line, p.column = position(&root, "databases", i)
		p.check(databaseName.MatchString(d.Name), "no name of a database: %q", d.Name)
		p.check(roleName.MatchString(d.Owner), "no name of the owner of database %q: %q", d.Name, d.Owner)
		p.add(&Object{Kind: database, Name: d.Name, Spec: d.Owner})
		for _, to := range slices.Sorted(maps.Keys(d.Grants)) {
			p.check(roleName.MatchString(to) && to != d.Owner, "nothing can be granted to %q, the owner has all", to)
			p.check(len(d.Grants[to]) > 0, "there are no privileges for %q", to)
			p.add(&Object{Kind: grant, Name: d.Name, To: to, Spec: strings.Join(p.sorted(d.Grants[to], privileges), ", ")})
		}
	}
	return p.entries, errors.Join(p.errs...)
}

// parser gathers the objects of a file, and what is wrong with them.
type parser struct {
	file         string
	line, column int
	entries      []files.Entry[*Object]
	seen         map[string]bool
	errs         []error
}

func (p *parser) check(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: "+format, append([]any{p.file, p.line, p.column}, args...)...))
	}
}

func (p *parser) add(o *Object) {
	p.check(!p.seen[o.Key()], "%s is there twice", o.Key())
	p.seen[o.Key()] = true
	p.entries = append(p.entries, files.Entry[*Object]{Object: o, Line: p.line, Column: p.column})
}

// sorted returns words in the order of all that are known, each once.
func (p *parser) sorted(words, known []string) (sorted []string) {
	for _, word := range words {
		p.check(slices.Contains(known, word), "%q is none of %s", word, strings.Join(known, ", "))
	}
	for _, word := range known {
		if slices.Contains(words, word) {
			sorted = append(sorted, word)
		}
	}
	return sorted
}

// position returns where an entry of a list begins; 0 and 0 if that is behind an alias.
func position(root *yaml.Node, list string, i int) (line, column int) {
	fields := root.Content[0].Content
	for f := 0; f+1 < len(fields); f += 2 {
		if entries := fields[f+1].Content; fields[f].Value == list && i < len(entries) {
			return entries[i].Line, entries[i].Column
		}
	}
	return 0, 0
}
