// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"strconv"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// The columns of db/show for the rows, except the source.
var (
	linkHeader    = []string{"Name", "Kind", "Peer", "Master", "MTU", "MAC", "Up"}
	addressHeader = []string{"Dev", "CIDR"}
	routeHeader   = []string{"Table", "Dst", "Via", "Dev", "Metric", "Scope"}
	sysctlHeader  = []string{"Name", "Value"}
)

func linkColumns(l config.Link) []string {
	return []string{l.Name, string(l.Kind), l.Peer, l.Master, strconv.Itoa(l.MTU), l.MAC, strconv.FormatBool(l.Up)}
}

func addressColumns(a config.Address) []string {
	return []string{a.Dev, a.CIDR.String()}
}

func routeColumns(r config.Route) []string {
	via := ""
	if r.Via.IsValid() {
		via = r.Via.String()
	}
	return []string{r.Table.String(), r.Dst.String(), via, r.Dev, strconv.FormatUint(uint64(r.Metric), 10), string(r.Scope)}
}

func sysctlColumns(s config.Sysctl) []string {
	return []string{s.Name, s.Value}
}
