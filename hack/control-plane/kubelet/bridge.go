package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// What travels to and from the sandbox: a byte that says what, four that say how much, and that.
// The other end is crates/causeway/src/sandbox/given/bridge.rs.
const (
	frameRequest = 'r' // to the sandbox: what is to be run, as JSON
	frameAnswer  = 'a' // from the sandbox: a refusal, or an empty object
	frameGo      = 'g' // to the sandbox: the caller is connected
	frameStdin   = 'i' // to the sandbox; an empty one is the end of the input
	frameResize  = 's' // to the sandbox: columns and rows, two bytes each
	frameStdout  = 'o' // from the sandbox
	frameStderr  = 'e' // from the sandbox
	frameEnd     = 'x' // from the sandbox: how the command ended, as JSON
)

// The longest frame that is taken in.
const maxFrame = 1 << 20

type request struct {
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Container string   `json:"container"`
	Command   []string `json:"command"`
	Stdin     bool     `json:"stdin"`
	Stdout    bool     `json:"stdout"`
	Stderr    bool     `json:"stderr"`
	TTY       bool     `json:"tty"`
}

type refusal struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type ending struct {
	Code   int    `json:"code"`
	Failed string `json:"failed"`
}

// exitStatus is a command that ran and said so.
type exitStatus int

func (e exitStatus) Error() string   { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitStatus) String() string  { return e.Error() }
func (e exitStatus) Exited() bool    { return true }
func (e exitStatus) ExitStatus() int { return int(e) }

// bridge is one exec at the sandbox.
type bridge struct {
	connection net.Conn
	reader     *bufio.Reader
	writing    sync.Mutex
}

// ask says what is to be run and returns what the sandbox thinks of it.
func (b *bridge) ask(what request) (refusal, error) {
	b.reader = bufio.NewReaderSize(b.connection, 64<<10)
	text, err := json.Marshal(what)
	if err != nil {
		return refusal{}, err
	}
	if err := b.send(frameRequest, text); err != nil {
		return refusal{}, err
	}
	kind, text, err := b.receive()
	if err != nil {
		return refusal{}, err
	}
	if kind != frameAnswer {
		return refusal{}, fmt.Errorf("a frame %q where an answer was due", kind)
	}
	var answer refusal
	return answer, json.Unmarshal(text, &answer)
}

// ExecInContainer passes the streams on until the command has ended, whether or not anybody is left
// to see it.
func (b *bridge) ExecInContainer(_ context.Context, _, _, _ string, _ []string, in io.Reader, out, stderr io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if err := b.send(frameGo, nil); err != nil {
		return err
	}
	if in != nil {
		go b.feed(in)
	}
	if resize != nil {
		go b.follow(resize)
	}
	for {
		kind, data, err := b.receive()
		if err != nil {
			return fmt.Errorf("the sandbox went away: %w", err)
		}
		switch kind {
		case frameStdout:
			pass(out, data)
		case frameStderr:
			pass(stderr, data)
		case frameEnd:
			return ended(data)
		}
	}
}

func ended(text []byte) error {
	var end ending
	if err := json.Unmarshal(text, &end); err != nil {
		return err
	}
	switch {
	case end.Failed != "":
		return errors.New(end.Failed)
	case end.Code != 0:
		return exitStatus(end.Code)
	}
	return nil
}

// pass writes to a caller who may be gone: the command goes on anyway.
func pass(to io.Writer, data []byte) {
	if to != nil {
		_, _ = to.Write(data)
	}
}

func (b *bridge) feed(in io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 && b.send(frameStdin, buffer[:n]) != nil {
			return
		}
		if err != nil {
			_ = b.send(frameStdin, nil)
			return
		}
	}
}

func (b *bridge) follow(resize <-chan remotecommand.TerminalSize) {
	for size := range resize {
		data := binary.BigEndian.AppendUint16(nil, size.Width)
		if b.send(frameResize, binary.BigEndian.AppendUint16(data, size.Height)) != nil {
			return
		}
	}
}

func (b *bridge) send(kind byte, data []byte) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	_, err := b.connection.Write(append(head, data...))
	return err
}

func (b *bridge) receive() (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(b.reader, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", length)
	}
	data := make([]byte, length)
	_, err := io.ReadFull(b.reader, data)
	return head[0], data, err
}
