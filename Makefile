# Bare make lists the targets. None of them needs a C compiler; where there is one, check also looks for data races.

FUZZTIME ?= 60s
TESTFLAGS ?=

# Two packages at a time: each test process may start a PostgreSQL of its own.
GOTEST := go test -p 2 -timeout 40m
LINT := go tool -modfile=tools/go.mod golangci-lint

# The C compiler that go would use, if it is there and wanted. Without one, cgo is off rather than broken.
CC_FOUND := $(and $(filter 1,$(shell go env CGO_ENABLED)),$(shell command -v $$(go env CC) 2>/dev/null))
ifeq ($(CC_FOUND),)
export CGO_ENABLED := 0
endif

# check sets RACE for the tests it shares with test.
RACE :=
check: RACE := $(if $(CC_FOUND),-race)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/madeira, one static binary
	CGO_ENABLED=0 go build -trimpath -o bin/madeira ./cmd/madeira

test: need-postgres ## run the tests on SQLite and on a private PostgreSQL (installed if missing and possible)
	$(if $(RACE),MADEIRA_TEST_POSTGRES=$${MADEIRA_TEST_POSTGRES:-required} $(GOTEST) $(TESTFLAGS) -run 'Fault|Simulation|ReadsOnly|Admit' ./engine ./engine/store)
	MADEIRA_TEST_POSTGRES=$${MADEIRA_TEST_POSTGRES:-required} $(GOTEST) $(RACE) $(TESTFLAGS) ./...

# The tests come last, so that go test's own lines close the output.
check: fmt vet lint build test ## do what CI does: fmt, vet, lint, build, test with -race

bench: need-postgres ## run the benchmarks
	MADEIRA_TEST_POSTGRES=$${MADEIRA_TEST_POSTGRES:-required} go test -p 1 -run '^$$' -bench . -benchmem -timeout 0 $(TESTFLAGS) ./...

demo: ## run the month-end example
	go run ./cmd/madeira run examples/month-end/job.yaml

lint: ## run the linters; the first run builds them, which takes minutes
	$(LINT) run ./...

fmt: ## say which files gofmt would change, and fail if there are any
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then printf 'gofmt -w these:\n%s\n' "$$files" >&2; exit 1; fi

vet: ## run go vet
	go vet ./...

soak: need-postgres ## run the long tests, as long as they take
	MADEIRA_TEST_POSTGRES=$${MADEIRA_TEST_POSTGRES:-required} go test -p 1 -tags soak -run Soak -timeout 0 -v $(TESTFLAGS) ./...

fuzz: ## run each fuzz target for FUZZTIME (60s)
	tools/fuzz.sh $(FUZZTIME)

clean: ## remove what was built
	rm -rf bin
	go clean -testcache

need-postgres:
	@sh tools/need-postgres.sh

# Two cores: one thing after the other, and the tests' closing lines at the end.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build test check bench demo lint fmt vet soak fuzz clean need-postgres
