// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/request"
)

// An app wants a number of pods. The reconciler of apps starts those that are missing. The app owns
// its pods: when a pod is deleted, the app is reconciled and starts it again.
func Example() {
	db := statedb.New()
	_ = db.Start()
	defer func() { _ = db.Stop() }()
	apps := statedb.MustNewTable(db, "apps", appIndex)
	pods := statedb.MustNewTable(db, "pods", podIndex)
	actions := make(chan string)

	reconcile := func(_ context.Context, req request.Request) (request.Result, error) {
		wtxn := db.WriteTxn(pods)
		defer wtxn.Abort()
		want := 0
		if a, _, found := apps.Get(wtxn, appIndex.Query(req.String())); found {
			want = a.Replicas
		}
		for i := range 9 {
			name := fmt.Sprintf("%s-%d", req.Name, i)
			_, _, have := pods.Get(wtxn, podIndex.Query(name))
			if i < want && !have {
				actions <- "start " + name
				_, _, _ = pods.Insert(wtxn, &pod{Name: name, Owner: req.Name})
			} else if i >= want && have {
				actions <- "stop " + name
				_, _, _ = pods.Delete(wtxn, &pod{Name: name})
			}
		}
		wtxn.Commit()
		return request.Result{}, nil
	}
	c, err := request.New(request.Config[request.Request]{
		DB:         db,
		Reconciler: request.Func[request.Request](reconcile),
		Sources: []request.Source[request.Request]{
			request.For(apps, (*app).request),
			request.Owns(pods, (*pod).owner),
		},
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- c.Run(ctx) }()

	write := func(f func(wtxn statedb.WriteTxn)) {
		wtxn := db.WriteTxn(apps, pods)
		f(wtxn)
		wtxn.Commit()
	}
	write(func(wtxn statedb.WriteTxn) {
		_, _, _ = apps.Insert(wtxn, &app{Namespace: "shop", Name: "web", Replicas: 2})
	})
	fmt.Println(<-actions)
	fmt.Println(<-actions)
	write(func(wtxn statedb.WriteTxn) { _, _, _ = pods.Delete(wtxn, &pod{Name: "web-0"}) })
	fmt.Println(<-actions)
	write(func(wtxn statedb.WriteTxn) { _, _, _ = apps.Delete(wtxn, &app{Namespace: "shop", Name: "web"}) })
	fmt.Println(<-actions)
	fmt.Println(<-actions)
	stop()
	if err := <-stopped; err != nil {
		panic(err)
	}
	// Output:
	// start web-0
	// start web-1
	// start web-0
	// stop web-0
	// stop web-1
}
