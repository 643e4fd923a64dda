// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package apiserver starts and kills API servers for tests.
package apiserver

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/internal/tests/freeport"
)

// program is the variable with the path of the server's program, which a test binary that starts itself again passes on.
const program = "STATEKEEL_API_SERVER"

// Build builds the program, a tool of the module in a folder. It comes before all else. Of several packages one builds at a
// time, and the others find what it has left.
func Build(folder string) error {
	lock, err := os.Open(folder) // go itself locks go.mod
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	build := exec.Command("go", "tool", "-n", "server")
	build.Dir, build.Stderr = folder, os.Stderr
	// Without debug information it is linked in a third of the time.
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w")
	path, err := build.Output()
	if err != nil {
		return fmt.Errorf("building the server: %w", err)
	}
	return os.Setenv(program, strings.TrimSpace(string(path)))
}

// Server is an API server, with the EndpointSlice controller if Slices is set. It keeps its address.
type Server struct {
	// Port is that on 127.0.0.1.
	Port int
	// Slices is how many endpoints the controller puts into a slice; zero means that it does not run.
	Slices int
	// In calls a function in the network namespace of the server; nil means that this is the one of the test.
	In func(func() error) error

	dir        string
	etcd, peer int
	process    *exec.Cmd
	stdin      io.WriteCloser
	stdout     *bufio.Scanner
}

// New returns a server whose files are in a folder.
func New(dir string) *Server {
	s := &Server{dir: dir}
	errs := []error{s.makeFiles()}
	for _, port := range []*int{&s.Port, &s.etcd, &s.peer} {
		var err error
		*port, err = freeport.Get()
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		log.Fatal(err)
	}
	return s
}

// Start starts a server of the test.
func Start(t *testing.T) *Server {
	s := New(t.TempDir())
	s.StartFor(t)
	return s
}

// StartFor starts the server, until the test ends.
func (s *Server) StartFor(t testing.TB) {
	require.NoError(t, s.Start())
	t.Cleanup(s.Kill)
}

// makeFiles makes the key of service accounts, and the tokens of users.
func (s *Server) makeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(s.Path("key"), pem.EncodeToMemory(&block), 0o600); err != nil {
		return err
	}
	tokens := "admin,admin,admin,system:masters\nagent,agent,agent\n"
	return os.WriteFile(s.Path("tokens"), []byte(tokens), 0o600)
}

// Path returns the path of a file of the server: etcd is the folder of the store, certificates/apiserver.crt that of who
// signs its certificate.
func (s *Server) Path(name string) string { return filepath.Join(s.dir, name) }

// Start starts the server, and returns when it serves, makes services in the namespace default, and has
// made its own one.
func (s *Server) Start() (err error) {
	s.process = exec.Command(os.Getenv(program), "-dir", s.dir, "-etcd", fmt.Sprint(s.etcd), "-peer", fmt.Sprint(s.peer),
		"-port", fmt.Sprint(s.Port), "-slices", fmt.Sprint(s.Slices), "--",
		"--cert-dir="+s.Path("certificates"), "--bind-address=127.0.0.1",
		"--service-cluster-ip-range=10.96.0.0/16,fd00::a60:0/112", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.Path("key"), "--service-account-signing-key-file="+s.Path("key"),
		"--token-auth-file="+s.Path("tokens"), "--authorization-mode=RBAC", "--v=0", "--logging-format=text",
		// No controller makes the account of a pod.
		"--disable-admission-plugins=ServiceAccount")
	output, err := os.Create(s.Path("log"))
	if err != nil {
		return err
	}
	defer output.Close()
	s.process.Stderr = output
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return err
	}
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	s.stdout = bufio.NewScanner(stdout)
	begin := s.process.Start
	if s.In != nil {
		begin = func() error { return s.In(s.process.Start) }
	}
	if err := begin(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(s.Config("admin"))
	if err != nil {
		return err
	}
	ended := time.Now().Add(5 * time.Minute)
	for {
		if err = s.ready(client); err == nil || time.Now().After(ended) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *Server) ready(client *kubernetes.Clientset) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		said, _ := os.ReadFile(s.Path("log"))
		return fmt.Errorf("the server is not ready: %w\n%s", err, said[max(0, len(said)-2000):])
	}
	if _, err := client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}); err != nil {
		return err
	}
	// Beside all that it makes its namespaces, one after the other, learns which addresses services may have, and makes its
	// own service.
	_, err := client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "ready"},
		Spec: corev1.ServiceSpec{
			IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack), Ports: []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	own, err := client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil && len(own.Endpoints) == 0 {
		err = errors.New("the service kubernetes has no endpoint yet")
	}
	return err
}

// Kill kills the server, and returns when it has ended.
func (s *Server) Kill() {
	s.stdin.Close()
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Compact has the store forget what its objects were.
func (s *Server) Compact() error {
	_, err := fmt.Fprintln(s.stdin, "compact")
	if err == nil && !s.stdout.Scan() {
		err = fmt.Errorf("the server does not answer: %w", s.stdout.Err())
	}
	if err == nil && s.stdout.Text() != "compacted" {
		err = fmt.Errorf("compacting: %s", s.stdout.Text())
	}
	return err
}

// Config returns the configuration of a user: admin, or agent, who may do nothing. The test need not be in the namespace.
func (s *Server) Config(user string) *rest.Config {
	cfg := &rest.Config{
		Host: fmt.Sprint("https://127.0.0.1:", s.Port), BearerToken: user, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	if s.In != nil {
		cfg.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = s.In(func() (err error) {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		}
	}
	return cfg
}

// Client returns the client of the administrator.
func (s *Server) Client(t testing.TB) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(s.Config("admin"))
	require.NoError(t, err)
	return client
}
