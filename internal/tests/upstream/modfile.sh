#!/bin/sh
# Prints the name of a go.mod for go test -modfile, with which Cilium is built as it was released, with its own statedb and
# hive. Statekeel needs newer ones, and a program holds one version of a module. So Cilium, its statedb and its hive are
# linked out of the module cache, with the import paths of the two changed to statedb-then and hive-then. Nothing else is.
set -e
cd "$(dirname "$0")"
out=$(go env GOCACHE)/statekeel-upstream
if ! [ -e "$out/complete" ]; then
	if [ -e "$out" ]; then chmod -R u+w "$out"; rm -rf "$out"; fi
	mkdir -p "$out"
	go mod download github.com/cilium/cilium github.com/cilium/statedb-then github.com/cilium/hive-then
	for module in cilium statedb-then hive-then; do
		from=$(go list -m -f '{{.Dir}}' "github.com/cilium/$module")
		cp -al "$from" "$out/$module" 2>/dev/null || { rm -rf "${out:?}/$module"; cp -a "$from" "$out/$module"; }
		find "$out/$module" -type d -exec chmod u+w {} +
		grep -rlE --include='*.go' --include=go.mod 'github.com/cilium/(statedb|hive)\b' "$out/$module" | while read -r file; do
			sed -E 's#github.com/cilium/(statedb|hive)(["/ ]|$)#github.com/cilium/\1-then\2#' "$file" >"$file.new"
			mv -f "$file.new" "$file"
		done
	done
	touch "$out/complete"
fi
sed -e "s#=> ../../..#=> $(cd ../../.. && pwd)#" \
	-e "s#\(-then => \).*#\1$out/THEN#" go.mod |
	sed -E "s#(cilium/)(hive|statedb)(-then => .*/)THEN#\1\2\3\2-then#" >"$out/go.mod"
echo "replace github.com/cilium/cilium => $out/cilium" >>"$out/go.mod"
cp go.sum "$out/go.sum"
echo "$out/go.mod"
