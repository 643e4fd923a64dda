// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// Service is a row: a name, and the ports to open for it.
type Service struct {
	object.Meta
	Ports  map[string]int
	Status reconciler.Status
}

func (s *Service) Clone() *Service                         { c := *s; return &c }
func (s *Service) SetStatus(st reconciler.Status) *Service { s.Status = st; return s }
func (s *Service) GetStatus() reconciler.Status            { return s.Status }
func (s *Service) TableHeader() []string                   { return []string{"Name", "Ports", "Status"} }
func (s *Service) TableRow() []string {
	return []string{s.Name, fmt.Sprint(s.Ports), s.Status.Kind.String()}
}

var serviceName = statedb.Index[*Service, string]{
	Name:       "name",
	FromObject: func(s *Service) index.KeySet { return index.NewKeySet(index.String(s.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// Firewall is the target. It can open and close ports, and does not know services.
type Firewall struct {
	stateful.MapDiff[string, int]
	broken bool
}

func (*Firewall) GetStateAnnotationKey() string { return "firewall/ports" }

func (*Firewall) ExtractCurrentState(s *Service) (map[string]int, error) { return s.Ports, nil }

func (f *Firewall) ApplyOperations(_ context.Context, s *Service, ops stateful.StateChangeOperations[map[string]int, stateful.Entry[string, int]]) error {
	for _, port := range ops.ItemsToRemove {
		fmt.Printf("  close %s of %s\n", port.Key, s.Name)
	}
	for _, port := range ops.ItemsToUpdate {
		fmt.Printf("  move %s of %s to %d\n", port.Key, s.Name, port.Value)
	}
	for _, port := range ops.ItemsToAdd {
		if f.broken {
			f.broken = false
			return errors.New("the firewall is busy")
		}
		fmt.Printf("  open %s of %s at %d\n", port.Key, s.Name, port.Value)
	}
	return nil
}

// The firewall gets the differences, and the annotation has the state that was applied last.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := statedb.New()
	services := statedb.MustNewTable(db, "services", serviceName)
	firewall := &Firewall{}
	cfg, err := stateful.Configure(reconciler.Config[*Service]{
		DB: db, Table: services,
		Clone: (*Service).Clone, SetStatus: (*Service).SetStatus, GetStatus: (*Service).GetStatus,
	}, firewall)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	want := func(ports map[string]int) {
		wtxn := db.WriteTxn(services)
		next := &Service{Meta: object.Meta{Name: "web"}}
		if s, _, found := services.Get(wtxn, serviceName.Query("web")); found {
			next = s.Clone()
		}
		next.Ports, next.Status = ports, reconciler.StatusPending()
		if _, _, err := services.Insert(wtxn, next); err != nil {
			log.Fatal(err)
		}
		fmt.Println("want", slices.Sorted(maps.Keys(ports)))
		wtxn.Commit()
		if _, err := loop.WaitAll(ctx, reconciler.Applied); err != nil {
			log.Fatal(err)
		}
		s, _, _ := services.Get(db.ReadTxn(), serviceName.Query("web"))
		fmt.Println(" ", s.Status.Kind, s.Annotations["firewall/ports"])
	}
	want(map[string]int{"http": 80, "ssh": 22})
	want(map[string]int{"http": 8080, "ssh": 22})
	firewall.broken = true
	want(map[string]int{"http": 8080, "https": 443})

	wtxn := db.WriteTxn(services)
	if err := services.DeleteAll(wtxn); err != nil {
		log.Fatal(err)
	}
	fmt.Println("want nothing")
	wtxn.Commit()
	if _, err := loop.WaitAll(ctx, reconciler.Applied); err != nil {
		log.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// want [http ssh]
	//   open http of web at 80
	//   open ssh of web at 22
	//   Done {"http":80,"ssh":22}
	// want [http ssh]
	//   move http of web to 8080
	//   Done {"http":8080,"ssh":22}
	// want [http https]
	//   close ssh of web
	//   close ssh of web
	//   open https of web at 443
	//   Done {"http":8080,"https":443}
	// want nothing
	//   close http of web
	//   close https of web
}
