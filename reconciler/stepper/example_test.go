// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// Volume is a row: the custom resource of an operator.
type Volume struct {
	Name   string
	Size   int
	Status reconciler.Status
}

func (v *Volume) TableHeader() []string { return []string{"Name", "Size", "Status"} }
func (v *Volume) TableRow() []string {
	return []string{v.Name, fmt.Sprint(v.Size), v.Status.String()}
}

func (v *Volume) Clone() *Volume                        { c := *v; return &c }
func (v *Volume) GetStatus() reconciler.Status          { return v.Status }
func (v *Volume) SetStatus(s reconciler.Status) *Volume { v.Status = s; return v }
func (v *Volume) key() index.KeySet                     { return index.NewKeySet(index.String(v.Name)) }

var volumeName = statedb.Index[*Volume, string]{
	Name: "name", FromObject: (*Volume).key, FromKey: index.String, FromString: index.FromString, Unique: true,
}

// operator is the hook. There is only one disk.
type operator struct{ disks map[string]int }

func (o *operator) EnterInState(engine *stepper.Stepper[*Volume]) {
	volume := engine.Object()
	switch engine.GetState() {
	case stepper.CRChecker:
		if volume.Size > 1000 {
			engine.AddGiveupError(volume.Name, "check", errors.New("no disk is that large"))
		}
	case stepper.Updater:
		if _, there := o.disks[volume.Name]; !there && len(o.disks) == 1 {
			engine.AddOp(volume.Name, "create", errors.New("out of disks"), time.Hour)
			return
		}
		o.disks[volume.Name] = volume.Size
		engine.AddOpSuccess(volume.Name, "create")
	case stepper.CRFinalizer:
		delete(o.disks, volume.Name)
	}
}

// A failed volume is retried, and one that was given up waits for a change. Explain has the states
// of each walk.
func Example() {
	db := statedb.New()
	volumes, err := statedb.NewTable(db, "volumes", volumeName)
	if err != nil {
		log.Fatal(err)
	}
	cfg, err := stepper.Configure(reconciler.Config[*Volume]{
		DB: db, Table: volumes,
		Clone: (*Volume).Clone, GetStatus: (*Volume).GetStatus, SetStatus: (*Volume).SetStatus,
	}, stepper.NewStepper(&operator{disks: map[string]int{}}))
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Start(); err != nil {
		log.Fatal(err)
	}
	defer db.Stop()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	wtxn := db.WriteTxn(volumes)
	for _, v := range []Volume{{Name: "logs", Size: 10}, {Name: "media", Size: 5000}, {Name: "mail", Size: 20}} {
		v.Status = reconciler.StatusPending()
		volumes.Insert(wtxn, &v)
	}
	revision := volumes.Revision(wtxn.Commit())
	if _, err := loop.Wait(ctx, revision, reconciler.Attempted); err != nil {
		log.Fatal(err)
	}

	// Free the disk for the next volume.
	wtxn = db.WriteTxn(volumes)
	volumes.Delete(wtxn, &Volume{Name: "logs"})
	wtxn.Commit()
	if _, err := loop.WaitFor(ctx, reconciler.Applied, &Volume{Name: "logs"}); err != nil {
		log.Fatal(err)
	}
	if _, err := loop.Retry(ctx, "mail"); err != nil {
		log.Fatal(err)
	}
	if _, err := loop.WaitFor(ctx, reconciler.Applied, &Volume{Name: "mail"}); err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{"logs", "media", "mail"} {
		for _, event := range loop.Explain(ctx, name).Operations {
			fmt.Printf("%-5s %s %s: %s\n", name, event.Op, event.Result, event.Note)
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// logs  update done: CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End
	// logs  delete done: CRChecker > CRFinalizer > End
	// media update terminal: CRChecker > ErrorManager > GiveupManager > End
	// mail  update failed: CRChecker > ObjectsGetter > Mutator > Updater > ErrorManager > End
	// mail  update done: CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End
}

// A custom graph: a check may lead to a repair, and a repair to another check.
func ExampleNewGraph() {
	const (
		check  stepper.State = "Check"
		repair stepper.State = "Repair"
	)
	graph, err := stepper.NewGraph(
		stepper.Node{State: check, Next: []stepper.State{stepper.End, repair, stepper.ErrorManager}},
		stepper.Node{State: repair, Next: []stepper.State{check, stepper.ErrorManager}},
		stepper.Node{State: stepper.ErrorManager, Next: []stepper.State{stepper.End}},
		stepper.Node{State: stepper.End},
	)
	if err != nil {
		log.Fatal(err)
	}
	broken := 2
	engine := stepper.NewStepperOn(graph, stepper.StepperEngineHookFunc[*Volume](func(e *stepper.Stepper[*Volume]) {
		switch e.GetState() {
		case check:
			if broken > 0 {
				e.GoTo(repair)
			}
		case repair:
			broken--
		}
	}))
	engine.Run()
	fmt.Println(engine.PathOfStates())

	_, err = stepper.NewGraph(
		stepper.Node{State: check, Next: []stepper.State{repair, stepper.End}},
		stepper.Node{State: repair, Next: []stepper.State{repair}},
		stepper.Node{State: stepper.End},
	)
	fmt.Println(err)

	// Output:
	// Check > Repair > Check > Repair > Check > End
	// graph: there is no way from state "Repair" to "End"
}
