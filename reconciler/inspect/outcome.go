// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/status"
)

// Outcome is a row of the table of outcomes, which a reconciler keeps beside a table that it does not
// write. An object has a row while its latest change is not applied; in the first 10 ms it may have none.
// A change that is covered by the mark and has no row is Done.
//
// The reconciler writes a row when its Kind, Text, Revision or Deleted changes. The numbers of
// attempts and the time of the next one are in the [Explanation] of Key.
type Outcome struct {
	// ID is the primary key of the object, as in its table. It must not be changed.
	ID []byte `json:"id"`
	// Key is the text of the object's key.
	Key string `json:"key"`
	// Kind is the state of the object: Pending, Error or Blocked.
	Kind status.Kind `json:"kind"`
	// Text is the text of the last failure, or the reason of a blocked object; empty if the object is
	// Pending.
	Text string `json:"text,omitempty"`
	// Revision is the revision of the latest change of the object that the reconciler has read.
	Revision uint64 `json:"revision"`
	// Since is when the object came to have this Kind.
	Since time.Time `json:"since"`
	// Deleted is true if the object was deleted from its table, and is not deleted from the target.
	Deleted bool `json:"deleted,omitempty"`
}

// TableHeader implements statedb.TableWritable.
func (*Outcome) TableHeader() []string {
	return []string{"Key", "Status", "Deleted", "Revision", "Since", "Error"}
}

// TableRow implements statedb.TableWritable. All texts are printable, and long ones are cut.
func (o *Outcome) TableRow() []string {
	why := ""
	if o.Text != "" {
		why = text.Cell(text.Plain(o.Text))
	}
	return []string{
		text.Cell(text.Name(o.Key)), o.Kind.String(), strconv.FormatBool(o.Deleted),
		strconv.FormatUint(o.Revision, 10), text.Stamp(o.Since), why,
	}
}
