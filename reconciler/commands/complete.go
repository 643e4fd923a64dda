// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"strings"

	"github.com/cilium/hive/script"

	"github.com/statekeel/statekeel/internal/text"
)

// maxCompletions bounds the keys that are offered for what was typed.
const maxCompletions = 50

// completeArgs returns what completes the arguments of a command: names, then keys.
func (c *commands) completeArgs(s *spec) func(state *script.State, before []string, current string) []string {
	return func(_ *script.State, before []string, current string) []string {
		switch {
		case len(before) >= len(s.args):
			return nil
		case len(before) == 0:
			return c.completeName(current)
		}
		return c.completeKey(before[0], current)
	}
}

// completeKey returns keys of the reconciler with a name.
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

// completeFlag returns what completes the value of a flag of a command.
func (c *commands) completeFlag(s *spec) func(state *script.State, args []string, flag, current string) []string {
	return func(_ *script.State, args []string, flag, current string) []string {
		values := s.values[flag]
		switch {
		case flag == flagKey && len(args) > 0:
			return c.completeKey(args[0], current)
		case flag == flagFormat:
			values = []string{formatTable, formatJSON}
		}
		var out []string
		for _, v := range values {
			if strings.HasPrefix(v, current) {
				out = append(out, v)
			}
		}
		return out
	}
}

// shellWord returns a printable text as a word of a script: quoted where the script would
// split it or expand something in it.
func shellWord(s string) string {
	if strings.ContainsAny(s, " '#$") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}
