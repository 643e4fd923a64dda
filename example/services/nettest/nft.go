// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package nettest

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Nft has the program nft run a script in the namespace: all of it, or nothing if that fails.
func (p *Place) Nft(script string) error {
	return p.Try(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}

// IsDormant reports whether a table is dormant. While one is, nft 1.0.6 prints no JSON behind its flags.
func (p *Place) IsDormant(table string) (is bool) {
	p.Helper()
	p.Do(func() error {
		// It fails if there is no such table.
		out, _ := exec.Command("nft", append([]string{"list", "table"}, strings.Fields(table)...)...).Output()
		is = strings.Contains(string(out), "flags dormant")
		return nil
	})
	return is
}

// NftList decodes the ruleset of the namespace, in which no table is dormant.
func (p *Place) NftList(into any) {
	p.Helper()
	p.Do(func() error {
		for deadline := time.Now().Add(Limit); ; {
			out, err := exec.Command("nft", "-j", "-s", "list", "ruleset").Output()
			if err == nil {
				err = json.Unmarshal(out, into)
			}
			// While others write, nft may end without an error and without the whole ruleset.
			if err == nil {
				return nil
			}
			if time.Now().After(deadline) {
				plain, _ := exec.Command("nft", "list", "ruleset").CombinedOutput()
				return fmt.Errorf("nft -j list ruleset: %w: %q\n%s", err, out, plain)
			}
		}
	})
}

// Object is something that nft prints.
type Object struct {
	// Kind is table, chain, rule, set, map or element. Name is that of the chain or set for a rule or element.
	Kind, Family, Table, Name string
	// Text is the whole, without its handle. Rules have their place in the chain.
	Text string
}

// Ruleset returns everything that nftables has in the namespace, sorted.
func (p *Place) Ruleset() (all []Object) {
	p.Helper()
	var printed struct {
		Nftables []map[string]map[string]any `json:"nftables"`
	}
	p.NftList(&printed)
	rules := map[[3]string]int{}
	for _, each := range printed.Nftables {
		for kind, value := range each {
			o := Object{Kind: kind}
			o.Family, _ = value["family"].(string)
			o.Table, _ = value["table"].(string)
			o.Name, _ = value["name"].(string)
			delete(value, "handle")
			switch kind {
			case "metainfo":
				continue
			case "table":
				o.Table = o.Name
			case "rule":
				o.Name, _ = value["chain"].(string)
				chain := [3]string{o.Family, o.Table, o.Name}
				value["place"] = rules[chain]
				rules[chain]++
			case "set", "map":
				list, _ := value["elem"].([]any)
				delete(value, "elem")
				for _, e := range list {
					all = append(all, Object{"element", o.Family, o.Table, o.Name, textOf(p, e)})
				}
			}
			o.Text = textOf(p, value)
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// Changes returns what two rulesets do not have in common: what is missing, and what is new.
func Changes(before, after []Object) (missing, added []Object) {
	without := func(all, others []Object) []Object {
		return slices.DeleteFunc(slices.Clone(all), func(o Object) bool { return slices.Contains(others, o) })
	}
	return without(before, after), without(after, before)
}

func textOf(p *Place, value any) string {
	p.Helper()
	text, err := json.Marshal(value)
	require.NoError(p, err)
	return string(text)
}
