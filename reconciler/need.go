// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import "github.com/cilium/statedb"

// Need looks up an object that an operation depends on, in any table and by any index, and
// returns it if it is there and all ready functions, if any, return true for it. Otherwise
// it returns the zero object and a [Blocked] error, for the operation to return as it is,
// wrapped or joined. The text is what is needed, such as "device eth0", and that it "is
// missing" or "is not ready".
//
// The operation is run again when the result of the look-up changes, and now and then
// when a row near it in the index does: so it is once with every change of a row that is
// not ready. It is not run again when the row changes or disappears after the operation
// is done. For no wake-up to be lost, txn has to be the transaction that the operation was
// given; one that is given none, as that of a request, passes the one that it reads in. Where
// several rows match the query, the first counts, and any of them wakes.
//
// Need may be called from any goroutine. The ready functions get the row itself, and must
// not change it.
func Need[Obj any](txn statedb.ReadTxn, table statedb.Table[Obj], query statedb.Query[Obj], what string, ready ...func(obj Obj) bool) (Obj, error) {
	obj, _, watch, found := table.GetWatch(txn, query)
	var none Obj
	if !found {
		return none, Blocked(what+" is missing", watch)
	}
	for _, isReady := range ready {
		if !isReady(obj) {
			return none, Blocked(what+" is not ready", watch)
		}
	}
	return obj, nil
}
