// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"strings"

	"github.com/cilium/hive/script"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
)

// maxCompletions bounds the number of offered keys.
const maxCompletions = 50

// completeArgs returns the completion of a command's arguments: first reconcilers, then keys.
func (c *commands) completeArgs(s *spec) func(state *script.State, before []string, current string) []string {
	return func(_ *script.State, before []string, current string) []string {
		switch {
		case len(before) >= len(s.Args):
			return nil
		case len(before) == 0:
			names := c.completeName(current)
			for _, source := range c.registry.Sources() {
				if name := source.Input(); s.OnSource && strings.HasPrefix(name, current) {
					names = append(names, shellWord(keyName(text.Plain(name))))
				}
			}
			return names
		case s.Args[len(before)] == operator.ArgOptionalSet:
			return nil
		}
		return c.completeKey(before[0], current)
	}
}

// completeKey returns the keys with a prefix of the reconciler with a name.
func (c *commands) completeKey(name, prefix string) []string {
	found, err := c.registry.Find(text.Unquote(name))
	if err != nil {
		return nil
	}
	var out []string
	for _, key := range found.Keys(strings.TrimPrefix(prefix, "'"), maxCompletions) {
		out = append(out, shellWord(keyName(key)))
	}
	return out
}

func (c *commands) completeName(prefix string) []string {
	var out []string
	for _, r := range c.registry.All() {
		if name := r.ID().String(); strings.HasPrefix(name, prefix) {
			out = append(out, shellWord(keyName(text.Plain(name))))
		}
	}
	return out
}

// completeFlag returns the completion of the values of a command's flags.
func (c *commands) completeFlag(s *spec) func(state *script.State, args []string, flag, current string) []string {
	return func(_ *script.State, args []string, flag, current string) []string {
		if flag == operator.FlagKey && len(args) > 0 {
			return c.completeKey(args[0], current)
		}
		var out []string
		for _, v := range s.values(flag) {
			if strings.HasPrefix(v, current) {
				out = append(out, v)
			}
		}
		return out
	}
}

// values returns the possible values of a flag; nil if there are too many.
func (s *spec) values(flag string) []string {
	if flag == flagFormat {
		return []string{formatTable, formatJSON}
	}
	for _, f := range s.Flags {
		if f.Name == flag {
			return f.Values
		}
	}
	return nil
}

// shellWord returns a printable text as one word of a script. It is quoted if the script would split or
// expand it otherwise.
func shellWord(s string) string {
	if strings.ContainsAny(s, " '#$") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}
