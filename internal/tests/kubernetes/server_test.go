// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"context"
	"log"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/transport"

	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
)

// shared is a server for tests that do not kill it.
var shared *apiserver.Server

// ofCertificates are the goroutines with which client-go reads a client certificate again, for as long as a program runs.
var ofCertificates = []goleak.Option{
	goleak.IgnoreAnyFunction("k8s.io/client-go/transport.(*dynamicClientCert).run"),
	goleak.IgnoreAnyFunction("k8s.io/client-go/transport.(*dynamicClientCert).processNextWorkItem"),
	goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"),
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.PollImmediateUntil"),
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.PollImmediateUntilWithContext.poller.func1.1"),
}

func TestMain(m *testing.M) {
	// A connection on which nothing comes is lost after eleven seconds, not 45. A server on a busy machine answers in ten.
	os.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	os.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "10")
	// Certificates in files are read again every second, not every five minutes.
	transport.CertCallbackRefreshDuration = time.Second
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if err := apiserver.Build("server"); err != nil {
		log.Print(err)
		return 1
	}
	dir, err := os.MkdirTemp("", "kubernetestest")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared = apiserver.New(dir)
	if err := shared.Start(); err != nil {
		log.Print(err)
		return 1
	}
	code := m.Run()
	shared.Kill()
	// On a busy machine it takes a while until each connection has seen that the server is gone.
	for range 30 {
		if err = goleak.Find(ofCertificates...); err == nil {
			break
		}
	}
	if err != nil && code == 0 {
		log.Print(err)
		return 1
	}
	return code
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

// patience is for how long a test waits: for two bookmarks of a server, which come every minute, and longer.
const patience = 6 * time.Minute

// eventually waits for a state.
func eventually(t testing.TB, is func() bool, what string, args ...any) {
	t.Helper()
	for ended := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(ended) {
			t.Fatalf("never: "+what, args...)
		}
	}
}
