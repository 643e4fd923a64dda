// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"fmt"
	"strings"
)

// Graphviz returns the graph in the language of Graphviz (dot). Edges to ErrorManager,
// GiveupManager and CRFinalizer are dashed.
func (g *Graph) Graphviz() string {
	var out strings.Builder
	out.WriteString("digraph stepper {\n\trankdir=LR;\n\tnode [shape=box];\n")
	for _, n := range g.nodes {
		shape := ""
		if n.state == End {
			shape = " [shape=doublecircle]"
		}
		fmt.Fprintf(&out, "\t%s%s;\n", dotName(n.state), shape)
	}
	g.edges(func(from, to *node) {
		style := ""
		if to.state.leadsAway() {
			style = " [style=dashed]"
		}
		fmt.Fprintf(&out, "\t%s -> %s%s;\n", dotName(from.state), dotName(to.state), style)
	})
	out.WriteString("}\n")
	return out.String()
}

// Mermaid returns the graph in the language of Mermaid. Edges to ErrorManager, GiveupManager and
// CRFinalizer are dotted.
func (g *Graph) Mermaid() string {
	var out strings.Builder
	out.WriteString("flowchart LR\n")
	places := map[State]int{}
	for i, n := range g.nodes {
		places[n.state] = i
		fmt.Fprintf(&out, "\ts%d[\"%s\"]\n", i, mermaidName(n.state))
	}
	g.edges(func(from, to *node) {
		arrow := "-->"
		if to.state.leadsAway() {
			arrow = "-.->"
		}
		fmt.Fprintf(&out, "\ts%d %s s%d\n", places[from.state], arrow, places[to.state])
	})
	return out.String()
}

func (g *Graph) edges(yield func(from, to *node)) {
	for i := range g.nodes {
		for _, next := range g.nodes[i].next {
			yield(&g.nodes[i], &g.nodes[next])
		}
	}
}

// dotName returns a name as a quoted string of Graphviz, in which a backslash begins an escape.
func dotName(s State) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(string(s)) + `"`
}

// mermaidName returns a name for use between quotes in Mermaid. Characters that would end the
// quotes or begin a tag are replaced by codes.
func mermaidName(s State) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;", "\n", "<br>").Replace(string(s))
}
