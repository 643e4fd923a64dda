// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// serverPath is the program of the server, a tool of its module. shared is a server for tests that do not kill it.
var (
	serverPath string
	shared     *server
)

// ofCertificates are the goroutines with which client-go reads a client certificate again, for as long as a program runs.
var ofCertificates = []goleak.Option{
	goleak.IgnoreAnyFunction("k8s.io/client-go/transport.(*dynamicClientCert).run"),
	goleak.IgnoreAnyFunction("k8s.io/client-go/transport.(*dynamicClientCert).processNextWorkItem"),
	goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"),
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.PollImmediateUntil"),
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.PollImmediateUntilWithContext.poller.func1.1"),
}

func TestMain(m *testing.M) {
	// A connection on which nothing comes is lost after two seconds, not 45.
	os.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	os.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	// Certificates in files are read again every second, not every five minutes.
	transport.CertCallbackRefreshDuration = time.Second
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	build := exec.Command("go", "tool", "-n", "server")
	build.Dir, build.Stderr = "server", os.Stderr
	// Without debug information it is linked in a third of the time.
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w")
	path, err := build.Output()
	if err != nil {
		log.Print("building the server: ", err)
		return 1
	}
	serverPath = strings.TrimSpace(string(path))
	dir, err := os.MkdirTemp("", "kubernetestest")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared = newServer(dir)
	if err := shared.start(); err != nil {
		log.Print(err)
		return 1
	}
	code := m.Run()
	shared.kill()
	if err := goleak.Find(ofCertificates...); err != nil && code == 0 {
		log.Print(err)
		return 1
	}
	return code
}

// server is an API server. It keeps its address.
type server struct {
	dir              string
	port, etcd, peer int
	process          *exec.Cmd
	stdin            io.Closer
}

func newServer(dir string) *server {
	s := &server{dir: dir, port: freePort(), etcd: freePort(), peer: freePort()}
	if err := s.makeFiles(); err != nil {
		log.Fatal(err)
	}
	return s
}

// startServer starts a server of the test.
func startServer(t *testing.T) *server {
	s := newServer(t.TempDir())
	require.NoError(t, s.start())
	t.Cleanup(s.kill)
	return s
}

// port is the last port that a server got. No two servers of a run get the same one.
var port atomic.Uint32

// freePort returns a port that is free now, and that no client gets as its own.
func freePort() int {
	port.CompareAndSwap(0, 10_000+mathrand.N[uint32](20_000))
	for {
		p := int(port.Add(1))
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", p)); err == nil {
			l.Close()
			return p
		}
	}
}

// makeFiles makes the key of service accounts, and the tokens of users.
func (s *server) makeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(s.path("key"), pem.EncodeToMemory(&block), 0o600); err != nil {
		return err
	}
	tokens := "admin,admin,admin,system:masters\nagent,agent,agent\n"
	return os.WriteFile(s.path("tokens"), []byte(tokens), 0o600)
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// start starts the server, and returns when it serves.
func (s *server) start() (err error) {
	s.process = exec.Command(serverPath, "-dir", s.dir, "-etcd", fmt.Sprint(s.etcd), "-peer", fmt.Sprint(s.peer), "--",
		"--cert-dir="+s.path("certificates"), "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", s.port),
		"--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.path("key"), "--service-account-signing-key-file="+s.path("key"),
		"--token-auth-file="+s.path("tokens"), "--authorization-mode=RBAC", "--v=0", "--logging-format=text")
	output, err := os.Create(s.path("log"))
	if err != nil {
		return err
	}
	defer output.Close()
	s.process.Stdout, s.process.Stderr = output, output
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	ended := time.Now().Add(5 * time.Minute)
	for {
		if err = s.ready(); err == nil || time.Now().After(ended) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *server) ready() error {
	client, err := kubernetes.NewForConfig(s.config("admin"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		said, _ := os.ReadFile(s.path("log"))
		return fmt.Errorf("the server is not ready: %w\n%s", err, said[max(0, len(said)-2000):])
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	return err
}

// kill kills the server, and returns when it has ended.
func (s *server) kill() {
	s.stdin.Close()
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// config returns the configuration of a user.
func (s *server) config(user string) *rest.Config {
	return &rest.Config{
		Host: fmt.Sprint("https://127.0.0.1:", s.port), BearerToken: user, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
}

// client returns the client of the administrator.
func (s *server) client(t testing.TB) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(s.config("admin"))
	require.NoError(t, err)
	return client
}

// namespace makes a namespace for a test.
func namespace(t testing.TB, client *kubernetes.Clientset) string {
	made, err := client.CoreV1().Namespaces().Create(context.Background(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return made.Name
}

// copyStore copies the folder of the store.
func copyStore(t *testing.T, from, to string) {
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

// eventually waits for a state.
func eventually(t testing.TB, is func() bool, what string, args ...any) {
	t.Helper()
	for ended := time.Now().Add(3 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(ended) {
			t.Fatalf("never: "+what, args...)
		}
	}
}
