#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other: go test takes one at a time.
set -euo pipefail
time=${1:-60s}
found=0
packages=$(go list ./...)
for package in $packages; do
	listed=$(go test -run '^$' -list '^Fuzz' "$package") # fails if the package does not build
	for target in $(grep '^Fuzz' <<<"$listed" || true); do
		found=$((found + 1))
		echo "== $package $target, $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 2 "$package"
	done
done
echo "fuzz targets run: $found"
