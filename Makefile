# Everything a developer or a user of the source needs. Go is the only requirement; Node adds the tests against real
# npm MCP servers (without it they skip and say so, except in CI, where a missing part fails).

GO ?= go
export CGO_ENABLED ?= 0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X mcp-code-exec-harness/internal/cli.Version=$(VERSION)
# This machine's own platform is built by everything else.
PLATFORMS = $(filter-out $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH),linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
# The race detector needs cgo and a C compiler; where there is none, the tests run without it.
RACE = $(shell command -v gcc >/dev/null 2>&1 && echo -race)
LINT = $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: all build demo test lint bench fmt platforms

all: build

build: ## the product, one file: bin/harness, with the worker program in it
	$(GO) build -trimpath -ldflags '-s -w' -o internal/sandbox/wasm/worker.bin ./cmd/harness-worker
	$(GO) build -trimpath -tags embedworker -ldflags '$(LDFLAGS)' -o bin/harness ./cmd/harness

demo: build ## the main job with embedded defaults: no key, no network
	./bin/harness demo

test: ## every test
	CGO_ENABLED=$(if $(RACE),1,0) $(GO) test $(RACE) -timeout 20m ./...

lint: platforms ## vet, formatting, static analysis, tidy modules, every platform
	$(GO) vet ./...
	$(LINT) run
	$(GO) mod tidy -diff

platforms: ## whether everything compiles, which needs no optimisation
	@for p in $(PLATFORMS); do \
		echo "build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -gcflags='all=-N -l' -o /dev/null ./... || exit 1; \
	done

bench: build ## the budgets, measured on this machine
	./bin/harness bench

fmt:
	$(LINT) fmt
