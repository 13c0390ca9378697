#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other: go test takes one at a time.
set -euo pipefail
time=${1:-60s}
found=0
for package in $(go list ./...); do
	for target in $(go test -run '^$' -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		found=$((found + 1))
		echo "== $package $target, $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 2 "$package"
	done
done
echo "fuzz targets run: $found"
