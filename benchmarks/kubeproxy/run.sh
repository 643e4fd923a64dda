#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 Authors of Statekeel
#
# Measures example/services and kube-proxy, in turns, and compares them by benchstat. It takes root and nft, and half an
# hour for the two sizes: run.sh SERVICESxENDPOINTS ...
set -euo pipefail
cd "$(dirname "$0")"

sizes=("$@")
((${#sizes[@]})) || sizes=(1000x10 10000x10)
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go build -o "$programs" . ./services
{
	echo "cpu: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
	echo "linux: $(uname -r)"
	echo "nft: $(nft --version)"
	echo "kubernetes: $(go list -m -f '{{.Version}}' k8s.io/kubernetes)"
	for size in "${sizes[@]}"; do
		args=(-services "${size%x*}" -endpoints "${size#*x}")
		"$programs/services" "${args[@]}" -changes 100
		"$programs/kubeproxy" "${args[@]}" -changes 30
		"$programs/kubeproxy" "${args[@]}" -changes 30 -name kube-proxy+10ms -min-sync 10ms
	done
} | tee /dev/stderr | go tool -modfile ../../tools/go.mod benchstat -col /impl -
