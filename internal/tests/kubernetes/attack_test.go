// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/kubernetes"
)

// The tests of this file were written to break promises: to lose an event, to apply all again, and to delete rows because
// the server is confused.

func TestAnObjectThatLeavesTheSelectorHasNoRows(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in, other := namespace(t, client), namespace(t, client)
	web := map[string]string{"app": "web-" + in}
	put := func(in, value string, labels map[string]string) {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}, Data: map[string]string{"1": value}}
		_, err := client.CoreV1().ConfigMaps(in).Update(t.Context(), o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.CoreV1().ConfigMaps(in).Create(t.Context(), o, metav1.CreateOptions{})
		}
		require.NoError(t, err)
	}
	put(in, "x", web)
	f := follow(t, shared.Config("admin"), "", rowsOf, func(cfg *kubernetes.Config[*corev1.ConfigMap, *row], _ *source.Config[*row]) {
		cfg.Labels = "app=" + web["app"]
	})
	f.requireRows("a/1=x")
	for i := range 5 {
		put(in, fmt.Sprint(i), nil) // it leaves, with another value
		f.requireRows()
		put(in, fmt.Sprint("in", i), web)
		f.requireRows(fmt.Sprint("a/1=in", i))
		// It moves to another namespace, and back: its row is the same.
		put(other, "other", web)
		require.NoError(t, client.CoreV1().ConfigMaps(in).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		f.requireRows("a/1=other")
		require.NoError(t, client.CoreV1().ConfigMaps(other).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		f.requireRows()
		put(in, "back", web)
		f.requireRows("a/1=back")
	}
}

func TestAChangeThatMakesNoOtherRowWritesNothing(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	m.put("a", "1=x")
	f := followMaps(t, shared.Config("admin"), in)
	f.requireRows("a/1=x")
	before := f.revision()
	for i := range 20 {
		// Each has a manager of its own, so managedFields grow.
		_, err := client.CoreV1().ConfigMaps(in).Patch(t.Context(), "a", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata": {"annotations": {"a%d": "x"}}}`, i), metav1.PatchOptions{FieldManager: fmt.Sprint("m", i)})
		require.NoError(t, err)
	}
	m.put("b", "1=x")
	f.requireRows("a/1=x", "b/1=x")
	require.Equal(t, before+1, f.revision(), "only the row of b")
}

// followKind follows a custom kind of its own group, which it makes, with a row a.
func followKind(t *testing.T, group string, server *rest.Config) *follower {
	scheme := k8sruntime.NewScheme()
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"}, &widget{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "WidgetList"}, &widgetList{})
	makeKind(t, "widgets."+group, "Widget", `{"size": {"type": "integer"}}`)
	post(t, "/apis/"+group+"/v1/namespaces/default/widgets",
		`{"apiVersion": "`+group+`/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}}`)
	f := follow(t, server, "", func(w *widget) ([]*row, error) {
		return []*row{{w.Name, fmt.Sprint(w.Spec.Size)}}, nil
	}, func(cfg *kubernetes.Config[*widget, *row], _ *source.Config[*row]) { cfg.Scheme = scheme })
	f.requireRows("a=3")
	return f
}

func TestTheRowsStayWhileTheKindIsNotThere(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared)
	f := followKind(t, "gone.example.org", p.config("admin"))
	before := f.revision()
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		if strings.Contains(r.URL.Path, "widgets") {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "widgets"}, "",
				"404 page not found", 0, true)
		}
		return nil
	})
	p.cut()
	f.requireAway("the server could not find the requested resource")
	f.requireRows("a=3")
	p.setAnswer(nil)
	require.NoError(t, f.loaded())
	require.Equal(t, before, f.revision())
}

// The group of the kind is for a while that of an aggregated API whose service is not there.
func TestTheRowsStayWhileAnAggregatedAPIIsNotAvailable(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared)
	const group = "away.example.org"
	f := followKind(t, group, p.config("admin"))
	before := f.revision()
	api := shared.Client(t).CoreV1().RESTClient()
	path := "/apis/apiregistration.k8s.io/v1/apiservices/v1." + group
	require.NoError(t, api.Patch(types.MergePatchType).AbsPath(path).Body([]byte(`{
		"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
		"spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "none", "port": 443}}}`)).
		Do(t.Context()).Error())
	eventually(t, func() bool {
		return api.Get().AbsPath("/apis/"+group+"/v1/widgets").Do(t.Context()).Error() != nil
	}, "it is away")
	p.cut()
	f.requireAway("unable to handle the request")
	f.requireRows("a=3")
	require.NoError(t, api.Delete().AbsPath(path).Do(t.Context()).Error())
	require.NoError(t, f.loaded())
	require.Equal(t, before, f.revision())
}

func TestTheRowsStayWhenRightsAreLost(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	m.put("a", "1=x")
	user := "user-" + in
	grant := func(name, resource, object string, verbs ...string) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user + "-" + name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}}}
		if object != "" {
			role.Rules[0].ResourceNames = []string{object}
		}
		_, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: user}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	asUser := shared.Config("admin")
	asUser.Impersonate.UserName = user
	theUser, err := clientset.NewForConfig(asUser)
	require.NoError(t, err)
	// The server learns of a change of rights later than it is written.
	until := func(name string, has bool) {
		eventually(t, func() bool {
			_, err := theUser.CoreV1().ConfigMaps(in).List(t.Context(), metav1.ListOptions{})
			if name == "know" {
				_, err = theUser.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
			}
			return has && err == nil || !has && apierrors.IsForbidden(err)
		}, "the right is known: %t", has)
	}
	revoke := func(name string) {
		require.NoError(t, client.RbacV1().ClusterRoleBindings().Delete(t.Context(), user+"-"+name, metav1.DeleteOptions{}))
		require.NoError(t, client.RbacV1().ClusterRoles().Delete(t.Context(), user+"-"+name, metav1.DeleteOptions{}))
		until(name, false)
	}
	grant("follow", "configmaps", "", "list", "watch")
	grant("know", "namespaces", "kube-system", "get")
	until("follow", true)
	until("know", true)
	p := newProxy(t, shared)
	cfg := p.config("admin")
	cfg.Impersonate.UserName = user
	f := followMaps(t, cfg, in)
	f.requireRows("a/1=x")
	before := f.revision()

	revoke("follow")
	p.cut()
	f.requireAway(`configmaps is forbidden: User "` + user + `" cannot `)
	f.requireRows("a/1=x")
	grant("follow", "configmaps", "", "list", "watch")
	require.NoError(t, f.loaded())

	// The UID of the cluster is lost: an empty list is not believed then, and is when it is known again.
	revoke("know")
	p.cut()
	eventually(t, func() bool { return f.input().Rejected == 1 }, "said")
	require.NoError(t, f.loaded())
	require.Equal(t, before, f.revision(), "nothing was written")
	p.setAnswer(func(*http.Request) *apierrors.StatusError { return apierrors.NewInternalError(errors.New("away")) })
	p.cut()
	f.requireAway("away")
	m.remove("a")
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		if kindOf(r) == "watch" {
			return apierrors.NewResourceExpired("too old")
		}
		return nil
	})
	require.ErrorIs(t, f.loaded(), source.ErrEmpty)
	f.requireRows("a/1=x")
	grant("know", "namespaces", "kube-system", "get")
	until("know", true)
	p.cut()
	f.requireRows()
}

func TestAStoreThatWasCompactedIsListedAgain(t *testing.T) {
	t.Parallel()
	s := apiserver.Start(t)
	m := mapsOf(t, s.Client(t), "default")
	for i := range 20 {
		m.put(fmt.Sprint("o", i), "1=x")
	}
	p := newProxy(t, s)
	f := followMaps(t, p.config("admin"), "default")
	m.followed(f)
	before := f.revision()
	p.setAnswer(func(*http.Request) *apierrors.StatusError { return apierrors.NewInternalError(errors.New("away")) })
	p.cut()
	f.requireAway("away")
	m.put("o3", "1=y")
	m.remove("o4")
	m.put("o5", "1=y")
	m.put("o5", "1=x")
	require.NoError(t, s.Compact())
	s.Kill() // and its cache of changes
	require.NoError(t, s.Start())
	p.setAnswer(nil)
	m.followed(f)
	require.Equal(t, 2, p.times("stream"))
	require.Equal(t, before+2, f.revision(), "o3 and o4")
}

// The server has no cache of events: it streams no list of them, and sends hardly a bookmark.
func TestAKindWithoutACacheIsFollowed(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	put := func(name string) {
		_, err := client.CoreV1().Events(in).Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: in},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	put("a")
	p := newProxy(t, shared)
	f := follow(t, p.config("admin"), in, func(o *corev1.Event) ([]*row, error) { return []*row{{o.Name, ""}}, nil }, nil)
	f.requireRows("a=")
	put("b")
	f.requireRows("a=", "b=")
	p.cut()
	put("c")
	f.requireRows("a=", "b=", "c=")
	require.NoError(t, f.loaded())
}

// objectsVariable is how many objects the test of the memory of a list has. It takes minutes to make 10,000.
const objectsVariable = "STATEKEEL_KUBERNETES_OBJECTS"

// TestTheMemoryOfAList measures what a list takes beyond the rows that are there, at its first object and at its last one.
func TestTheMemoryOfAList(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv(objectsVariable))
	if n == 0 {
		t.Skip(objectsVariable + " is not set")
	}
	client := shared.Client(t)
	in := namespace(t, client)
	slices := client.DiscoveryV1().EndpointSlices(in)
	for i := range n {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}, AddressType: discoveryv1.AddressTypeIPv4}
		for j := range 20 {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i/250, i%250, j+1)}})
		}
		_, err := slices.Create(t.Context(), s, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	p := newProxy(t, shared)
	for _, mode := range []string{"streamed", "in pages"} {
		p.setAnswer(func(r *http.Request) *apierrors.StatusError {
			if mode == "in pages" && kindOf(r) == "stream" {
				return apierrors.NewBadRequest("no")
			}
			return nil
		})
		var calls, most atomic.Int64
		before := heap()
		f := follow(t, p.config("admin"), in, func(s *discoveryv1.EndpointSlice) ([]*row, error) {
			if at := calls.Add(1) % int64(n); at < 2 {
				most.Store(max(most.Load(), int64(heap())))
			}
			return []*row{{s.Name, strings.Repeat("x", 200)}}, nil
		}, nil)
		eventually(t, func() bool { return len(f.rows()) == n }, "all")
		stays := heap() - before
		cold := int(most.Swap(0)) - before
		calls.Store(0)
		require.NoError(t, f.loaded())
		again := int(most.Load()) - before - stays
		t.Logf("%s: %d objects: %.1f MiB stay; the first list takes up to %.1f MiB, another one %.1f MiB more",
			mode, n, mib(stays), mib(cold), mib(again))
		if mode == "streamed" {
			require.Less(t, again, 2*stays, "a second copy, and what is read ahead")
		}
		f.stop()
		runtime.KeepAlive(f)
	}
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
