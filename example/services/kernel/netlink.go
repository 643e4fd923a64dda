// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nfHeader is the size of the header of netfilter, which follows that of netlink.
const nfHeader = 4

// bufferSize is how much the kernel accepts in one transaction, in bytes, if the system allows that: by default
// it is 208 KiB, which 3,000 elements exceed.
const bufferSize = 4 << 20

// maxAttribute is how long a list of elements may become. An attribute has 16 bits for its length, and nothing
// complains if it wraps around.
const maxAttribute = 60_000

// messages is a sequence of netlink messages. The numbers of its attributes are in network byte order.
type messages struct{ buf []byte }

// begin appends the header of a message for a subsystem of netfilter; end completes it.
func (m *messages) begin(kind, flags int, family byte, resource uint16) (start int) {
	start = len(m.buf)
	m.buf = append(m.buf, make([]byte, unix.NLMSG_HDRLEN)...)
	binary.NativeEndian.PutUint16(m.buf[start+4:], uint16(kind))
	binary.NativeEndian.PutUint16(m.buf[start+6:], uint16(unix.NLM_F_REQUEST|flags))
	// The kernel returns this number with an error: it says which message it is about.
	binary.NativeEndian.PutUint32(m.buf[start+8:], uint32(start))
	m.buf = binary.BigEndian.AppendUint16(append(m.buf, family, unix.NFNETLINK_V0), resource)
	return start
}

func (m *messages) end(start int) {
	binary.NativeEndian.PutUint32(m.buf[start:], uint32(len(m.buf)-start))
}

// nest appends the header of an attribute that holds attributes; close completes it.
func (m *messages) nest(kind int) (start int) {
	start = len(m.buf)
	m.buf = binary.NativeEndian.AppendUint16(append(m.buf, 0, 0), uint16(kind|unix.NLA_F_NESTED))
	return start
}

func (m *messages) close(start int) {
	binary.NativeEndian.PutUint16(m.buf[start:], uint16(len(m.buf)-start))
}

func (m *messages) bytes(kind int, value []byte) {
	m.buf = binary.NativeEndian.AppendUint16(m.buf, uint16(unix.SizeofNlAttr+len(value)))
	m.buf = binary.NativeEndian.AppendUint16(m.buf, uint16(kind))
	m.buf = append(m.buf, value...)
	for len(m.buf)%unix.NLA_ALIGNTO != 0 {
		m.buf = append(m.buf, 0)
	}
}

func (m *messages) text(kind int, value string) {
	m.bytes(kind, append([]byte(value), 0))
}

func (m *messages) uint32(kind int, value uint32) {
	m.bytes(kind, binary.BigEndian.AppendUint32(nil, value))
}

// attributes calls yield for each attribute with its kind, its value, and where it begins.
func attributes(buf []byte, yield func(kind int, value []byte, at int) error) error {
	for at := 0; at+unix.SizeofNlAttr <= len(buf); {
		size := int(binary.NativeEndian.Uint16(buf[at:]))
		if size < unix.SizeofNlAttr || at+size > len(buf) {
			return errors.New("the kernel sent a malformed attribute")
		}
		kind := int(binary.NativeEndian.Uint16(buf[at+2:])) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := yield(kind, buf[at+unix.SizeofNlAttr:at+size], at); err != nil {
			return err
		}
		at += (size + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
	}
	return nil
}

// socket is a netlink socket of netfilter. The kernel handles what is sent before send returns, and its answers
// wait in the socket then: to read them never waits, and nothing is left over for the next request.
type socket struct {
	conn *netlink.Conn
	raw  syscall.RawConn
	buf  []byte
}

// open prepares a connection for that.
func (s *socket) open(conn *netlink.Conn) (err error) {
	if s.raw, err = conn.SyscallConn(); err != nil {
		return err
	}
	// The socket's own limit stays where the system does not allow more: larger transactions fail then.
	_ = conn.SetWriteBuffer(bufferSize)
	_ = conn.SetReadBuffer(bufferSize)
	// With the attributes of errors, the kernel says which element it refuses.
	if err := conn.SetOption(netlink.ExtendedAcknowledge, true); err != nil {
		return err
	}
	s.conn, s.buf = conn, make([]byte, 1<<16)
	return nil
}

// dial opens a connection of its own.
func (s *socket) dial() error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	if err = s.open(conn); err != nil {
		_ = conn.Close()
	}
	return err
}

// close closes the connection, if it was opened.
func (s *socket) close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

func (s *socket) send(m *messages) error {
	var sent error
	err := s.raw.Control(func(fd uintptr) {
		sent = unix.Sendto(int(fd), m.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err == nil && sent != nil {
		err = os.NewSyscallError("sendto", sent)
	}
	return err
}

// answer is a message of the kernel.
type answer struct {
	kind, flags int
	number      uint32 // of the message that it answers
	data        []byte
}

// receive calls yield for every answer that waits in the socket. It returns the error of the socket, after which
// answers are missing, or else the first of yield; it reads all answers in any case.
func (s *socket) receive(yield func(answer) error) error {
	var failed error
	for {
		var n int
		var err error
		closed := s.raw.Control(func(fd uintptr) { n, _, err = unix.Recvfrom(int(fd), s.buf, unix.MSG_DONTWAIT) })
		if closed != nil {
			return closed
		}
		switch {
		case errors.Is(err, unix.EAGAIN):
			return failed
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			failed = fmt.Errorf("answers of the kernel are lost: %w", os.NewSyscallError("recvfrom", err))
			continue
		}
		for rest := s.buf[:n]; len(rest) >= unix.NLMSG_HDRLEN && failed == nil; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.NLMSG_HDRLEN || size > len(rest) {
				failed = errors.New("the kernel sent a malformed message")
				break
			}
			failed = yield(answer{
				kind: int(binary.NativeEndian.Uint16(rest[4:])), flags: int(binary.NativeEndian.Uint16(rest[6:])),
				number: binary.NativeEndian.Uint32(rest[8:]), data: rest[unix.NLMSG_HDRLEN:size],
			})
			rest = rest[min(len(rest), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
		}
	}
}

// drain reads all answers, and ignores them.
func (s *socket) drain() { _ = s.receive(func(answer) error { return nil }) }

// failure is what the kernel says about a message. Its error is nil if the message was accepted.
type failure struct {
	err error
	// at is where in the message the refused attribute is, or zero if the kernel does not say.
	at int
}

// failure decodes an answer of the kind NLMSG_ERROR.
func (a answer) failure() failure {
	if len(a.data) < 4+unix.NLMSG_HDRLEN {
		return failure{err: errors.New("the kernel sent a short answer")}
	}
	code := -int32(binary.NativeEndian.Uint32(a.data))
	if code == 0 {
		return failure{}
	}
	f := failure{err: unix.Errno(code)}
	rest := a.data[4+unix.NLMSG_HDRLEN:]
	if a.flags&unix.NLM_F_CAPPED == 0 {
		// The message follows its header, and is not of interest.
		rest = rest[min(len(rest), int(binary.NativeEndian.Uint32(a.data[4:]))-unix.NLMSG_HDRLEN):]
	}
	if a.flags&unix.NLM_F_ACK_TLVS != 0 {
		// What cannot be decoded only makes the error less exact.
		_ = attributes(rest, func(kind int, value []byte, _ int) error {
			if kind == unix.NLMSGERR_ATTR_OFFS && len(value) == 4 {
				f.at = int(binary.NativeEndian.Uint32(value))
			}
			return nil
		})
	}
	return f
}
