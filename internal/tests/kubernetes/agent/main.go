// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Command agent is the program of docs/sources.md, which its test runs with an API server.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/kubernetes"
)

// Route is a custom kind, with the fields that the agent needs.
type Route struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Prefixes []string `json:"prefixes"`
		Device   string   `json:"device"`
	} `json:"spec"`
}
type RouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Route `json:"items"`
}

func (r *Route) DeepCopyObject() runtime.Object     { made := *r; return &made }
func (l *RouteList) DeepCopyObject() runtime.Object { made := *l; return &made }

type Row struct{ Prefix, Device string }

// kernel are the operations. They change the standard output here.
type kernel struct{}

func (kernel) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *Row) error {
	_, err := fmt.Println("add", r.Prefix, r.Device)
	return err
}
func (kernel) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *Row) error {
	_, err := fmt.Println("remove", r.Prefix)
	return err
}

func main() {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(schema.GroupVersion{Group: "example.org", Version: "v1"}, &Route{}, &RouteList{})
	server, err := clientcmd.BuildConfigFromFlags("", os.Args[1]) // with "" that of the pod
	must(err)
	db := statedb.New()
	table, err := statedb.NewTableAny(db, "routes", nil, nil, statedb.Index[*Row, string]{Name: "prefix", Unique: true,
		FromObject: func(r *Row) index.KeySet { return index.NewKeySet(index.String(r.Prefix)) }})
	must(err)
	sink, err := source.New(source.Config[*Row]{Name: "kubernetes", DB: db, Table: table})
	must(err)
	routes, err := kubernetes.New(kubernetes.Config[*Route, *Row]{Server: server, Scheme: scheme, Sink: sink,
		Rows: func(r *Route) (rows []*Row, err error) {
			for _, prefix := range r.Spec.Prefixes {
				rows = append(rows, &Row{prefix, r.Spec.Device})
			}
			return rows, nil
		}})
	must(err)
	loop, err := reconciler.New(reconciler.Config[*Row]{DB: db, Table: table, Operations: kernel{}})
	must(err)
	must(db.Start())
	go func() { must(loop.Run(context.Background())) }()
	must(routes.Run(context.Background()))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
