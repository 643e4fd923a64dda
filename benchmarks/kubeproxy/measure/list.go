// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// setCount is NFTA_SET_COUNT, which kernels have from version 6.16 on.
const setCount = 20

// errChanged says that a listing is of no single moment.
var errChanged = errors.New("the kernel changed while it was listed")

// list lists the kernel, and fails unless the services and endpoints there are exactly those of the
// workload.
func list(layout Layout, workload *Workload) error {
	socket, err := dial()
	if err != nil {
		return err
	}
	defer socket.close()
	for range 20 {
		err := socket.list(layout, workload)
		if !errors.Is(err, errChanged) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the kernel changes all the time while it is listed")
}

func (l *lister) list(layout Layout, workload *Workload) error {
	type set struct {
		family      uint8
		table, name []byte
		elements    int // -1 if the kernel does not tell
	}
	var sets []set
	err := l.dump(unix.NFT_MSG_GETSET, unix.NFPROTO_UNSPEC, nil, func(family uint8, payload []byte) {
		attrs := payload[generationHeader:]
		s := set{family: family,
			table:    slices.Clone(text(attribute(attrs, unix.NFTA_SET_TABLE))),
			name:     slices.Clone(text(attribute(attrs, unix.NFTA_SET_NAME))),
			elements: -1}
		if count := attribute(attrs, setCount); len(count) == 4 {
			s.elements = int(binary.BigEndian.Uint32(count))
		}
		sets = append(sets, s)
	})
	if err != nil {
		return err
	}

	endpoints, services := make(present, workload.unused), make(present, workload.shape.Services)
	var foreign []string
	found := func(what string, in present, serial int32, ok bool, address fmt.Stringer) {
		switch {
		case !ok || int(serial) >= len(in):
			foreign = append(foreign, fmt.Sprintf("%s %s", what, address))
		case in[serial]:
			foreign = append(foreign, fmt.Sprintf("%s %s, which is there twice", what, address))
		default:
			in[serial] = true
		}
	}
	for _, s := range sets {
		// The attributes that name a set have the same numbers in a question for elements.
		request := appendText(appendText(nil, unix.NFTA_SET_ELEM_LIST_TABLE, s.table),
			unix.NFTA_SET_ELEM_LIST_SET, s.name)
		count := 0
		err := l.dump(unix.NFT_MSG_GETSETELEM, s.family, request, func(_ uint8, payload []byte) {
			for e := range elements(payload) {
				count++
				if a, is := layout.Endpoint(e); is {
					serial, ok := endpointSerial(a)
					found("endpoint", endpoints, serial, ok, a)
				}
				if a, is := layout.Service(e); is {
					serial, ok := serviceSerial(a)
					found("service", services, serial, ok, a)
				}
			}
		})
		if err != nil {
			return err
		}
		// The kernel leaves elements out while it makes the hash of a set larger, and says nothing.
		if s.elements >= 0 && count != s.elements {
			return errChanged
		}
	}
	err = l.dump(unix.NFT_MSG_GETRULE, unix.NFPROTO_UNSPEC, nil, func(_ uint8, payload []byte) {
		if a, is := layout.rule(payload); is {
			serial, ok := endpointSerial(a)
			found("endpoint", endpoints, serial, ok, a)
		}
	})
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return fmt.Errorf("the kernel has %d addresses that are not of the workload, such as the %s",
			len(foreign), foreign[0])
	}
	lack := 0
	for _, serial := range workload.slots {
		lack += endpoints.take(serial)
	}
	lackServices := 0
	for i := range workload.shape.Services {
		lackServices += services.take(int32(i))
	}
	if more := endpoints.count(); lack+lackServices+more > 0 {
		return fmt.Errorf("the kernel lacks %d endpoints and %d services, and has %d endpoints that are gone",
			lack, lackServices, more)
	}
	return nil
}

// present says which serial numbers are in the kernel. It is small, as it is in the memory that is measured.
type present []bool

// take removes a serial number, and returns 1 if it is not there.
func (p present) take(serial int32) (lacks int) {
	if !p[serial] {
		return 1
	}
	p[serial] = false
	return 0
}

func (p present) count() (n int) {
	for _, is := range p {
		if is {
			n++
		}
	}
	return n
}

// lister asks the kernel for lists of objects.
type lister struct {
	socket int
	buffer []byte
}

func dial() (*lister, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a socket to the kernel: %w", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind the socket to the kernel: %w", err), unix.Close(socket))
	}
	return &lister{socket: socket, buffer: make([]byte, 1<<17)}, nil
}

func (l *lister) close() { unix.Close(l.socket) }

// dump calls each with the payload of each message of a listing. That is never shorter than its header.
func (l *lister) dump(question uint16, family uint8, attrs []byte, each func(family uint8, payload []byte)) error {
	length := unix.SizeofNlMsghdr + generationHeader + len(attrs)
	request := binary.NativeEndian.AppendUint32(nil, uint32(length))
	request = binary.NativeEndian.AppendUint16(request, unix.NFNL_SUBSYS_NFTABLES<<8|question)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request = append(request, 0, 0, 0, 0, 0, 0, 0, 0) // a sequence number and a port: there is one question at a time
	request = append(request, family, unix.NFNETLINK_V0, 0, 0)
	request = append(request, attrs...)
	if err := unix.Sendto(l.socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask the kernel for a list: %w", err)
	}
	changed := false
	for {
		n, _, err := unix.Recvfrom(l.socket, l.buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive a list from the kernel: %w", err)
		}
		for message := l.buffer[:n]; len(message) >= unix.SizeofNlMsghdr; {
			length := int(binary.NativeEndian.Uint32(message))
			if length < unix.SizeofNlMsghdr || length > len(message) {
				return errors.New("the kernel sent a message of a wrong length")
			}
			changed = changed || binary.NativeEndian.Uint16(message[6:])&unix.NLM_F_DUMP_INTR != 0
			payload := message[unix.SizeofNlMsghdr:length]
			switch kind := binary.NativeEndian.Uint16(message[4:]); kind {
			case unix.NLMSG_DONE:
				if changed {
					return errChanged
				}
				return nil
			case unix.NLMSG_ERROR:
				if len(payload) < 4 {
					return errors.New("the kernel sent a message of a wrong length")
				}
				errno := unix.Errno(-int32(binary.NativeEndian.Uint32(payload)))
				if errno == unix.EINTR {
					return errChanged
				}
				return fmt.Errorf("list %d of nftables: %w", question, errno)
			default:
				if _, ok := nftables(kind); ok && len(payload) >= generationHeader {
					each(payload[0], payload)
				}
			}
			message = message[min(align(length), len(message)):]
		}
	}
}

// appendText appends a string attribute.
func appendText(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)+1))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(append(b, value...), 0)
	return append(b, make([]byte, align(len(b))-len(b))...)
}
