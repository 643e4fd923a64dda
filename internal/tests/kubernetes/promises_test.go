// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/kubernetes"
)

func TestPortsOfServicesAreRows(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	p := newProxy(t, shared)
	services := client.CoreV1().Services(in)
	make := func(name string, labels map[string]string, ports ...int32) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
		for _, n := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", n), Port: n})
		}
		_, err := services.Create(t.Context(), s, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	web := map[string]string{"app": "web"}
	make("a", web, 80, 443)
	make("other", nil, 80)
	f := follow(t, p.config("admin"), in, func(s *corev1.Service) (rows []*row, err error) {
		for _, port := range s.Spec.Ports {
			rows = append(rows, &row{fmt.Sprintf("%s:%d", s.Name, port.Port), port.Name})
		}
		return rows, nil
	}, func(cfg *kubernetes.Config[*corev1.Service, *row], _ *source.Config[*row]) {
		cfg.Labels, cfg.Fields = "app=web", "metadata.name!=b"
	})
	f.requireRows("a:80=p80", "a:443=p443")
	make("b", web, 80)
	make("c", web, 8080)
	f.requireRows("a:80=p80", "a:443=p443", "c:8080=p8080")
	require.NoError(t, services.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	f.requireRows("c:8080=p8080")
	require.Equal(t, 1, p.times("stream"))
	require.Zero(t, p.times("list"))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.True(t, p.types["application/vnd.kubernetes.protobuf;stream=watch"], "%v", p.types)
}

// widget is a custom kind.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func (w *widget) DeepCopyObject() k8sruntime.Object { made := *w; return &made }

type widgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []widget `json:"items"`
}

func (l *widgetList) DeepCopyObject() k8sruntime.Object { made := *l; return &made }

// makeKind makes a custom kind with the properties of its spec.
func makeKind(t *testing.T, name, kind, properties string) {
	plural, group, _ := strings.Cut(name, ".")
	post(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1",
		"kind": "CustomResourceDefinition", "metadata": {"name": %q}, "spec": {"group": %q, "scope": "Namespaced",
		"names": {"plural": %q, "singular": %q, "kind": %q, "listKind": "%[5]sList"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
			"properties": {"spec": {"type": "object", "properties": %s}}}}}]}}`,
		name, group, plural, strings.ToLower(kind), kind, properties))
}

// post makes an object of the shared server, whose kind may not be there yet.
func post(t *testing.T, path, body string) {
	rest := shared.Client(t).CoreV1().RESTClient()
	eventually(t, func() bool {
		err := rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
		return err == nil || apierrors.IsAlreadyExists(err)
	}, "made: %s", body)
}

func TestACustomKindIsFollowedFromWhenItIsThere(t *testing.T) {
	t.Parallel()
	scheme := k8sruntime.NewScheme()
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"}, &widget{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "WidgetList"}, &widgetList{})
	f := follow(t, shared.Config("admin"), "", func(w *widget) ([]*row, error) {
		return []*row{{w.Name, fmt.Sprint(w.Spec.Size)}}, nil
	}, func(cfg *kubernetes.Config[*widget, *row], _ *source.Config[*row]) { cfg.Scheme = scheme })
	f.requireAway("watching widgets: the server could not find the requested resource")
	makeKind(t, "widgets.example.org", "Widget", `{"size": {"type": "integer"}}`)
	post(t, "/apis/example.org/v1/namespaces/default/widgets",
		`{"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}}`)
	f.requireRows("a=3")
	post(t, "/apis/example.org/v1/namespaces/default/widgets",
		`{"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": 4}}`)
	f.requireRows("a=3", "b=4")
	require.NoError(t, f.loaded())
}

func TestABadObjectKeepsItsLastGoodRows(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	m.put("a", "1=x")
	f := followMaps(t, shared.Config("admin"), in)
	f.requireRows("a/1=x")
	m.put("a", "1=y", "panic=x")
	m.put("b", "2=x")
	f.requireRows("a/1=x", "b/2=x")
	require.ErrorContains(t, f.loaded(), "configmaps "+in+"/a: Rows panicked: no")
	require.Contains(t, f.input().Problems().Of["a/1"], "Rows panicked")
	m.put("a", "1=y")
	f.requireRows("a/1=y", "b/2=x")
	require.NoError(t, f.loaded())
}

func TestWhatTheServerForbidsIsSaid(t *testing.T) {
	t.Parallel()
	s := apiserver.Start(t)
	client := s.Client(t)
	m := mapsOf(t, client, "default")
	m.put("a", "1=x")
	f := followMaps(t, s.Config("agent"), "default")
	f.requireAway(`configmaps is forbidden: User "agent" cannot watch resource "configmaps" in API group "" in the namespace "default"`)
	grant := func(verbs ...string) {
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: strings.Join(verbs, "-")},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}},
		}
		if verbs[0] == "get" {
			role.Rules[0].Resources, role.Rules[0].ResourceNames = []string{"namespaces"}, []string{"kube-system"}
		}
		_, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "agent"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	grant("watch")
	f.requireAway(`cannot list resource "configmaps"`)
	grant("list")
	f.requireRows("a/1=x")
	eventually(t, func() bool { return f.input().Rejected == 1 }, "the missing right is a problem")
	require.Contains(t, f.input().Problems().First[0], `User "agent" cannot get resource "namespaces"`)
	grant("get")
	// The server may not know it yet when the kind is listed.
	eventually(t, func() bool { return f.loaded() == nil && f.input().Rejected == 0 }, "no problem")
	require.Equal(t, 1, strings.Count(f.log.String(), "source connected"))
}

func TestTheRowsStayWhileTheServerIsKilled(t *testing.T) {
	t.Parallel()
	s := apiserver.Start(t)
	m := mapsOf(t, s.Client(t), "default")
	m.put("a", "1=x")
	m.put("b", "2=x")
	f := followMaps(t, s.Config("admin"), "default")
	f.requireRows("a/1=x", "b/2=x")
	before := f.revision()
	for range 3 {
		s.Kill()
		f.requireAway("connection refused")
		require.NoError(t, s.Start())
		eventually(t, func() bool { return f.sink.State().Connected }, "connected")
		require.NoError(t, f.loaded())
	}
	require.Equal(t, before, f.revision(), "nothing was written")
	require.Equal(t, 4, strings.Count(f.log.String(), "source connected"), "one line for a change: %s", f.log)
	m.put("a", "1=y")
	m.remove("b")
	f.requireRows("a/1=y")
}

func TestAServerThatWasRestoredIsListedAgain(t *testing.T) {
	t.Parallel()
	s := apiserver.Start(t)
	m := mapsOf(t, s.Client(t), "default")
	m.put("a", "1=x")
	m.put("b", "2=x")
	s.Kill()
	copyStore(t, s.Path("etcd"), s.Path("backup"))
	require.NoError(t, s.Start())
	for i := range 1000 {
		m.put("a", fmt.Sprint("1=", i))
	}
	m.put("c", "3=x")
	f := followMaps(t, s.Config("admin"), "default")
	f.requireRows("a/1=999", "b/2=x", "c/3=x")
	s.Kill()
	copyStore(t, s.Path("backup"), s.Path("etcd"))
	require.NoError(t, s.Start())
	f.requireRows("a/1=x", "b/2=x", "c/3=x")
	require.ErrorContains(t, f.loaded(), "rows of 1 configmaps that it does not have are held")
	m.put("c", "3=y")
	f.requireRows("a/1=x", "b/2=x", "c/3=y")
}

func TestRowsThatAReplacedServerDoesNotHaveAreHeld(t *testing.T) {
	t.Parallel()
	s := apiserver.Start(t)
	m := mapsOf(t, s.Client(t), "default")
	m.put("a", "1=x")
	m.put("b", "2=x")
	f := followMaps(t, s.Config("admin"), "default")
	// The server makes a ConfigMap of its own in each namespace only with a controller.
	f.requireRows("a/1=x", "b/2=x")
	s.Kill()
	copyStore(t, t.TempDir(), s.Path("etcd"))
	require.NoError(t, s.Start())
	// While the server starts it may not have made kube-system yet: that is another problem.
	held := "rows of 2 configmaps that it does not have are held"
	eventually(t, func() bool { return strings.Contains(fmt.Sprint(f.input().Problems().First), held) }, "%s", held)
	f.requireRows("a/1=x", "b/2=x")
	m.put("a", "1=y")
	f.requireRows("a/1=y", "b/2=x")
	// It takes 90 seconds, and then a bookmark, which the server sends every minute.
	f.requireRows("a/1=y")
	eventually(t, func() bool { return !strings.Contains(fmt.Sprint(f.input().Problems().First), "are held") }, "nothing is held")
}

func TestBookmarksMoveInput(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	f := followMaps(t, shared.Config("admin"), in)
	m := mapsOf(t, client, in)
	m.put("a", "1=x")
	f.requireRows("a/1=x")
	reached := f.input().Input
	// Other objects change.
	mapsOf(t, client, namespace(t, client)).put("a", "1=x")
	eventually(t, func() bool { return f.input().Input > reached }, "a bookmark moves Input")
	require.Equal(t, f.revision(), f.input().Output)
}

func TestAServerThatDoesNotStreamIsListedInPages(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	for i := range 1200 {
		m.put(fmt.Sprint("o", i), "1=x")
	}
	p := newProxy(t, shared)
	expired := false
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		switch kindOf(r) {
		case "stream":
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		case "continue":
			p.mu.Lock()
			defer p.mu.Unlock()
			if !expired {
				expired = true
				return apierrors.NewResourceExpired("the provided continue parameter is too old")
			}
		}
		return nil
	})
	f := followMaps(t, p.config("admin"), in)
	m.followed(f)
	m.put("o7", "1=y")
	m.remove("o8")
	m.followed(f)
	require.NotZero(t, p.times("continue"))
}

func TestAnExpiredVersionIsListedAgain(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	m.put("a", "1=x")
	m.put("b", "2=x")
	p := newProxy(t, shared)
	f := followMaps(t, p.config("admin"), in)
	f.requireRows("a/1=x", "b/2=x")
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		if kindOf(r) == "watch" {
			return apierrors.NewResourceExpired("too old resource version: 1 (2)")
		}
		return nil
	})
	m.put("a", "1=y")
	f.requireRows("a/1=y", "b/2=x")
	p.cut()
	m.remove("b") // seen only as a missing object
	f.requireRows("a/1=y")
	require.Equal(t, 2, p.times("stream"))
}

func TestAWatchIsResumedAfterWhatHappensToConnections(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	p := newProxy(t, shared)
	f := followMaps(t, p.config("admin"), in)
	refuse := func(err *apierrors.StatusError) func() {
		return func() {
			before := p.times("watch")
			p.setAnswer(func(r *http.Request) *apierrors.StatusError {
				if kindOf(r) == "watch" {
					return err
				}
				return nil
			})
			p.cut()
			eventually(t, func() bool { return p.times("watch") > before }, "refused")
		}
	}
	eventually(t, func() bool { return f.sink.State().Connected }, "connected")
	for i, trouble := range []struct{ begin, end func() }{
		{p.cut, func() {}},
		{p.CloseClientConnections, func() {}},
		{func() { p.freeze(true) }, func() { f.requireAway(""); p.freeze(false) }},
		{func() { p.set(func() { p.slow = 100 * time.Millisecond }) }, func() { p.set(func() { p.slow = 0 }) }},
		{refuse(apierrors.NewInternalError(fmt.Errorf("etcd is away"))), func() { f.requireAway("etcd is away"); p.setAnswer(nil) }},
		{refuse(apierrors.NewTooManyRequests("slow down", 1)), func() { f.requireAway("slow down"); p.setAnswer(nil) }},
	} {
		// After a watch that ends in its first second without an event the kind is listed again.
		m.put("first", fmt.Sprint("1=", i))
		m.followed(f)
		trouble.begin()
		m.put("a", fmt.Sprint("1=", i))
		m.remove("b")
		trouble.end()
		m.followed(f)
		m.put("b", fmt.Sprint("2=", i))
		m.followed(f)
	}
	require.Equal(t, 1, p.times("stream"), "listed once: %s", f.log)
	require.Zero(t, p.times("list"))
}

func TestTheServerIsAskedAgainWhenItSays(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	mapsOf(t, client, in).put("a", "1=x")
	p := newProxy(t, shared)
	var times []time.Time
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		p.mu.Lock()
		defer p.mu.Unlock()
		if kindOf(r) == "stream" {
			if times = append(times, time.Now()); len(times) < 3 {
				return apierrors.NewTooManyRequests("slow down", 2)
			}
		}
		return nil
	})
	f := followMaps(t, p.config("admin"), in)
	f.requireAway("slow down")
	f.requireRows("a/1=x")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Len(t, times, 3)
	for i := range 2 {
		require.GreaterOrEqual(t, times[i+1].Sub(times[i]), 2*time.Second)
	}
}

func TestAnUnknownCertificateIsSaid(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared)
	cfg := p.config("admin")
	cfg.CAData = nil
	f := followMaps(t, cfg, "default")
	f.requireAway("x509: certificate signed by unknown authority")
}

func TestManyNamespacesNeedNoGoroutines(t *testing.T) {
	client := shared.Client(t)
	var first string
	for range 50 {
		first = namespace(t, client)
		mapsOf(t, client, first).put("a", "1=x")
	}
	before := runtime.NumGoroutine()
	f := follow(t, shared.Config("admin"), "", func(o *corev1.ConfigMap) ([]*row, error) {
		return []*row{{o.Namespace + "/" + o.Name, ""}}, nil
	}, nil)
	eventually(t, func() bool { return len(f.rows()) >= 50 }, "all namespaces")
	require.Less(t, runtime.NumGoroutine()-before, 15, "of the source and its connection")
}

// TestOneCopyOfEachObjectStays measures the memory of 5,000 slices with a row of 200 bytes.
func TestOneCopyOfEachObjectStays(t *testing.T) {
	client := shared.Client(t)
	in := namespace(t, client)
	slices := client.DiscoveryV1().EndpointSlices(in)
	const n = 5000
	for i := range n {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}, AddressType: discoveryv1.AddressTypeIPv4}
		for j := range 20 {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i/250, i%250, j+1)}})
		}
		_, err := slices.Create(t.Context(), s, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	before := heap()
	f := follow(t, shared.Config("admin"), in, func(s *discoveryv1.EndpointSlice) ([]*row, error) {
		return []*row{{s.Name, strings.Repeat("x", 200)}}, nil
	}, nil)
	eventually(t, func() bool { return len(f.rows()) == n }, "all")
	each := (heap() - before) / n
	object, err := json.Marshal(first(slices.List(t.Context(), metav1.ListOptions{Limit: 1})).Items[0])
	require.NoError(t, err)
	t.Logf("%d bytes an object, of which the row is 250; as JSON it has %d", each, len(object))
	// The row, its place in the table, and what the source knows of it: the object itself is not kept.
	require.Less(t, each, 1500)
}

func first[T any](x T, _ error) T { return x }

func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
