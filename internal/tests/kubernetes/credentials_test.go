// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// onlyFor lets the proxy pass what a request with this token asks, and the administrator.
func (p *proxy) onlyFor(token string) {
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return apierrors.NewUnauthorized("Unauthorized")
		}
		r.Header.Set("Authorization", "Bearer admin")
		return nil
	})
	p.cut()
}

func TestATokenThatIsRenewedIsUsed(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	p := newProxy(t, shared)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o600))
	p.onlyFor("one")
	cfg := p.config("")
	cfg.BearerTokenFile = file
	f := followMaps(t, cfg, in)
	m.put("a", "1=x")
	f.requireRows("a/1=x")
	for _, token := range []string{"two", "three"} {
		p.onlyFor(token)
		m.put("a", "1="+token)
		f.requireAway("Unauthorized")
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		f.requireRows("a/1=" + token)
	}
}

// certificate writes a certificate of a client, and returns it.
func certificate(t *testing.T, dir, name string) *x509.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	wish := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, wish, wish, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"crt": {Type: "CERTIFICATE", Bytes: made}, "key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	parsed, err := x509.ParseCertificate(made)
	require.NoError(t, err)
	return parsed
}

func TestACertificateThatIsRenewedIsUsed(t *testing.T) {
	t.Parallel()
	client := shared.Client(t)
	in := namespace(t, client)
	m := mapsOf(t, client, in)
	dir := t.TempDir()
	p := newProxy(t, shared)
	allowed := certificate(t, dir, "one")
	p.setAnswer(func(r *http.Request) *apierrors.StatusError {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !r.TLS.PeerCertificates[0].Equal(allowed) {
			return apierrors.NewUnauthorized("Unauthorized")
		}
		r.Header.Set("Authorization", "Bearer admin")
		return nil
	})
	p.TLS.ClientAuth = tls.RequireAnyClientCert
	p.TLS.VerifyConnection = func(state tls.ConnectionState) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !state.PeerCertificates[0].Equal(allowed) {
			return errors.New("another certificate")
		}
		return nil
	}
	cfg := p.config("")
	cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	f := followMaps(t, cfg, in)
	m.put("a", "1=x")
	f.requireRows("a/1=x")
	next := certificate(t, t.TempDir(), "two")
	p.set(func() { allowed = next })
	p.CloseClientConnections()
	f.requireAway("certificate")
	next = certificate(t, dir, "three")
	p.set(func() { allowed = next })
	m.put("a", "1=y")
	f.requireRows("a/1=y")
}
