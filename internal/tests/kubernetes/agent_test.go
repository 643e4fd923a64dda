// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheProgramOfThePageRuns runs agent with a kind that is made after it was started.
func TestTheProgramOfThePageRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, file := filepath.Join(dir, "agent"), filepath.Join(dir, "kubeconfig")
	said, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, "./agent").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}],
		users: [{name: c, user: {token: admin}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`, shared.Port), 0o600))
	agent := exec.Command(program, file)
	agent.Stderr = os.Stderr
	output, err := agent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})

	makeKind(t, "routes.example.org", "Route", `{"prefixes": {"type": "array", "items": {"type": "string"}}, "device": {"type": "string"}}`)
	post(t, "/apis/example.org/v1/namespaces/default/routes", `{"apiVersion": "example.org/v1", "kind": "Route",
		"metadata": {"name": "a"}, "spec": {"device": "eth0", "prefixes": ["10.1.0.0/16"]}}`)
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	require.Equal(t, "add 10.1.0.0/16 eth0", lines.Text())
	require.NoError(t, shared.Client(t).CoreV1().RESTClient().Delete().AbsPath("/apis/example.org/v1/namespaces/default/routes/a").
		Do(t.Context()).Error())
	require.True(t, lines.Scan())
	require.Equal(t, "remove 10.1.0.0/16", lines.Text())
}
