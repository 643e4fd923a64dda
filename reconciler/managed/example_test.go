// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Tunnel is a row: a tunnel to some place, made by a broker.
type Tunnel struct {
	managed.Meta
	To     string
	Status reconciler.Status
}

func (t *Tunnel) Clone() *Tunnel                        { c := *t; return &c }
func (t *Tunnel) SetStatus(s reconciler.Status) *Tunnel { t.Status = s; return t }
func (t *Tunnel) GetStatus() reconciler.Status          { return t.Status }
func (t *Tunnel) TableHeader() []string                 { return []string{"Name", "To", "Status"} }
func (t *Tunnel) TableRow() []string                    { return []string{t.Name, t.To, t.Status.String()} }

var tunnelName = statedb.Index[*Tunnel, string]{
	Name:       "name",
	FromObject: func(t *Tunnel) index.KeySet { return index.NewKeySet(index.String(t.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// Broker is the outside system. It chooses the names of its tunnels.
type Broker struct{ tunnels map[string]string }

func (b *Broker) Observe(_ context.Context, t *Tunnel) (managed.ExternalObservation, error) {
	to, exists := b.tunnels[managed.GetExternalName(t)]
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: to == t.To}, nil
}

func (b *Broker) Create(_ context.Context, t *Tunnel) error {
	id := fmt.Sprintf("tunnel-%d", len(b.tunnels)+1)
	managed.SetExternalName(t, id)
	b.tunnels[id] = t.To
	fmt.Println("  create", id, "to", t.To)
	return nil
}

func (b *Broker) Update(_ context.Context, t *Tunnel) error {
	id := managed.GetExternalName(t)
	b.tunnels[id] = t.To
	fmt.Println("  update", id, "to", t.To)
	return nil
}

func (b *Broker) Delete(_ context.Context, t *Tunnel) error {
	id := managed.GetExternalName(t)
	delete(b.tunnels, id)
	fmt.Println("  delete", id)
	return nil
}

// A tunnel is created, updated and deleted; the conditions of its row show its state.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := statedb.New()
	tunnels := statedb.MustNewTable(db, "tunnels", tunnelName)
	broker := &Broker{tunnels: map[string]string{}}
	cfg := reconciler.Config[*Tunnel]{
		DB: db, Table: tunnels,
		Clone: (*Tunnel).Clone, SetStatus: (*Tunnel).SetStatus, GetStatus: (*Tunnel).GetStatus,
		Options: []reconciler.Option{reconciler.WithRetry(time.Millisecond, time.Second)},
	}
	configured, err := managed.Configure(cfg,
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*Tunnel](
			func(context.Context, *Tunnel) (managed.ExternalClient[*Tunnel], error) { return broker, nil })),
		managed.WithCreationGracePeriod(0))
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(configured)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	// until waits until ready returns true for the row. The row is nil when it is gone.
	until := func(ready func(t *Tunnel) bool) *Tunnel {
		for {
			t, _, watch, _ := tunnels.GetWatch(db.ReadTxn(), tunnelName.Query("lab"))
			if ready(t) {
				return t
			}
			<-watch
		}
	}
	writer := managed.NewWriter(cfg)
	want := func(to string) {
		fmt.Println("want", to)
		wtxn := db.WriteTxn(tunnels)
		lab := &Tunnel{Meta: managed.Meta{Meta: object.Meta{Name: "lab"}}}
		if _, err := writer.Apply(wtxn, lab, func(t *Tunnel) { t.To = to }); err != nil {
			log.Fatal(err)
		}
		wtxn.Commit()
		t := until(func(t *Tunnel) bool {
			return managed.IsReady(t) && t.GetCondition(managed.TypeSynced).ObservedGeneration == t.Generation
		})
		fmt.Println(" ", managed.GetExternalName(t), "is", t.GetCondition(managed.TypeReady).Reason, t.Finalizers)
	}
	want("the moon")
	want("mars")

	fmt.Println("want nothing")
	wtxn := db.WriteTxn(tunnels)
	if _, err := writer.Delete(wtxn, &Tunnel{Meta: managed.Meta{Meta: object.Meta{Name: "lab"}}}); err != nil {
		log.Fatal(err)
	}
	wtxn.Commit()
	until(func(t *Tunnel) bool { return t == nil })
	fmt.Println("  the row is gone")

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// want the moon
	//   create tunnel-1 to the moon
	//   tunnel-1 is Available [statekeel.io/managed]
	// want mars
	//   update tunnel-1 to mars
	//   tunnel-1 is Available [statekeel.io/managed]
	// want nothing
	//   delete tunnel-1
	//   the row is gone
}
