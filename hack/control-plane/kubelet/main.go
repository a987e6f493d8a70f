// Command causeway-kubelet is the kubelet's part of the sandbox on a real API server.
//
// The API server connects here for `pods/exec`, in whichever protocol it prefers. The protocols are
// the kubelet's own library; the command itself is run by the sandbox, which is asked over a socket:
//
//	kube-apiserver ──TLS: SPDY or WebSocket──▶ this ──frames over a Unix socket──▶ causeway sandbox
//
// A container runtime does not kill a command whose caller went away; its input ends. So it is here.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// How long a caller may take to open its streams, and may then be silent.
const (
	creationTimeout = 30 * time.Second
	idleTimeout     = 4 * time.Hour
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where the API server finds this")
	socket := flag.String("socket", "", "the Unix socket at which the sandbox runs commands")
	flag.Parse()
	certificate, err := selfSigned()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	go endWithStdin()
	// The sandbox reads this line: it is the port that its Node object names.
	fmt.Printf("%d\n", listener.Addr().(*net.TCPAddr).Port)
	mux := http.NewServeMux()
	mux.Handle("/exec/", handler{socket: *socket})
	server := &http.Server{
		Handler:   mux,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		// An upgraded connection is HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	log.Fatal(server.ServeTLS(listener, "", ""))
}

// endWithStdin ends this process when the sandbox's does, however that ended.
func endWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

type handler struct{ socket string }

// ServeHTTP answers /exec/<namespace>/<pod>/<container>?command=…
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) != 4 {
		http.Error(w, "the path is /exec/<namespace>/<pod>/<container>", http.StatusNotFound)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	connection, err := net.Dial("unix", h.socket)
	if err != nil {
		http.Error(w, "the sandbox is gone: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer connection.Close()
	bridge := &bridge{connection: connection}
	refusal, err := bridge.ask(request{
		Namespace: path[1], Pod: path[2], Container: path[3], Command: r.URL.Query()["command"],
		Stdin: options.Stdin, Stdout: options.Stdout, Stderr: options.Stderr, TTY: options.TTY,
	})
	if err != nil {
		http.Error(w, "the sandbox does not answer: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	if refusal.Code != 0 {
		refuse(w, refusal)
		return
	}
	remotecommand.ServeExec(w, r, bridge, path[2], "", path[3], nil, options,
		idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

// refuse answers as the kubelet does when it has an API status to give.
func refuse(w http.ResponseWriter, refusal refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(refusal.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure",
		"code": refusal.Code, "reason": refusal.Reason, "message": refusal.Message,
	})
}
