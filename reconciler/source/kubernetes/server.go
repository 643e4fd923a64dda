// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// answerTimeout bounds the time that an answer may take, and that until a watch begins.
const answerTimeout = 3 * time.Minute

// server is what a Source asks of the API server. Errors are those of the connection or of the server.
type server interface {
	// list and watch are as a Reflector needs them. A watch whose connection fails may be one that ends at once.
	list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	cluster(ctx context.Context) (uid string, err error) // that of the namespace kube-system
	version(ctx context.Context) (string, error)         // the resource version that the kind has now
}

// client is a server behind a connection.
type client struct {
	rest                                *rest.RESTClient
	resource, namespace, labels, fields string
	// protobuf reports whether the kind can be decoded from it.
	protobuf bool
}

// newClient returns the client of a kind, whose resource it sets.
func newClient[Kind object, Obj any](c *Config[Kind, Obj]) (*client, error) {
	example := reflect.New(reflect.TypeFor[Kind]().Elem()).Interface().(Kind)
	kinds, _, err := c.Scheme.ObjectKinds(example)
	if err != nil {
		return nil, fmt.Errorf("Config.Scheme does not have %T: %w", example, err)
	}
	kind := kinds[0]
	ofList := kind.GroupVersion().WithKind(kind.Kind + "List")
	list, err := c.Scheme.New(ofList)
	if err != nil {
		return nil, fmt.Errorf("Config.Scheme does not have the list of %T: %w", example, err)
	}
	// A scheme of its own decodes the errors of the server, too, and is not changed by others.
	own := runtime.NewScheme()
	own.AddKnownTypeWithName(kind, example)
	own.AddKnownTypeWithName(ofList, list)
	metav1.AddToGroupVersion(own, kind.GroupVersion())
	metav1.AddToGroupVersion(own, schema.GroupVersion{Version: "v1"})

	cfg := rest.CopyConfig(c.Server)
	cfg.GroupVersion, cfg.APIPath = new(kind.GroupVersion()), "/apis"
	cfg.Timeout = 0 // it would end each watch
	if kind.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(own).WithoutConversion()
	asks, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("Config.Server: %w", err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	c.Resource = cmp.Or(c.Resource, plural.Resource)
	_, protobuf := any(example).(interface{ Unmarshal([]byte) error })
	return &client{asks, c.Resource, c.Namespace, c.Labels, c.Fields, protobuf}, nil
}

// get begins a request. A retry is the source's, which tells of it.
func (c *client) get(opts metav1.ListOptions) *rest.Request {
	opts.LabelSelector, opts.FieldSelector = c.labels, c.fields
	return c.rest.Get().MaxRetries(0).NamespaceIfScoped(c.namespace, c.namespace != "").Resource(c.resource).
		VersionedParams(&opts, metav1.ParameterCodec)
}

func (c *client) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return c.get(opts).UseProtobufAsDefaultIfPreferred(c.protobuf).Timeout(answerTimeout).Do(ctx).Get()
}

func (c *client) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.get(opts).UseProtobufAsDefaultIfPreferred(c.protobuf).Watch(ctx)
}

func (c *client) cluster(ctx context.Context) (string, error) {
	found, err := metadata(ctx, c.rest.Get().MaxRetries(0).AbsPath("/api/v1/namespaces/kube-system"))
	return string(found.UID), err
}

func (c *client) version(ctx context.Context) (string, error) {
	found, err := metadata(ctx, c.get(metav1.ListOptions{Limit: 1}))
	return found.ResourceVersion, err
}

// metadata returns the metadata of an answer.
func metadata(ctx context.Context, r *rest.Request) (found metav1.PartialObjectMetadata, err error) {
	answer := r.SetHeader("Accept", runtime.ContentTypeJSON).Timeout(answerTimeout).Do(ctx)
	if err := answer.Error(); err != nil {
		return found, err
	}
	text, _ := answer.Raw() // its error is the same
	err = json.Unmarshal(text, &found)
	return found, err
}
