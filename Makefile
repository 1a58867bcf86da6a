# Everything a developer or a user of the source needs. Go is the only requirement; Node adds the tests against real
# npm MCP servers, redis-server those of the vault in Redis, the Go module proxy those of files in a bucket (tools/bucket), Chromium those of the dashboard (without them they skip and say so, except in CI,
# where a missing part fails).

GO ?= go
export CGO_ENABLED ?= 0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X mcp-code-exec-harness/internal/cli.Version=$(VERSION)
# This machine's own platform is built by everything else.
PLATFORMS = $(filter-out $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH),linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
# The race detector needs cgo and a C compiler; where there is none, the tests run without it.
RACE = $(shell command -v gcc >/dev/null 2>&1 && echo -race)
# SQLite, which is C in Go's clothes, and esbuild are not instrumented: they take five times as long otherwise, and the detector
# still sees their Go drivers and all that calls them. No other library can be left out so: what a package without instrumentation allocates keeps
# what the detector knew of the same memory before, and is reported where instrumented code reads it.
PLAIN = $(foreach p,modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory github.com/evanw/...,-gcflags=$(p)=-race=false)
TOOL = $(GO) tool -modfile=tools/go.mod
# One set of flags for everything but tests with the race detector, so that each package is compiled once.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
# The packages tested with the detector whose tests start their own binary as child processes. Without the race detector a child starts in a seventh
# of the time; what it runs is tested with the detector inside of the tests' own process.
CHILDREN = ./internal/agent ./internal/api ./internal/gate ./internal/wiring ./internal/mcpclient ./internal/program ./internal/sandbox/process ./internal/sandbox/wasm ./internal/store/sqlstore

# The packages whose goroutines share memory are tested with the race detector, those whose tests take longest first, so that none is left alone
# at the end. The detector makes a test three times as long: the others only compute, or are clients of these.
LONGEST = ./internal/wiring ./internal/sandbox/docker ./internal/api ./internal/mcpclient ./internal/sandbox/process ./internal/store/sqlstore ./internal/sandbox/wasm
SHARING = $(LONGEST) $(addprefix ./internal/,agent approval audit auth bucket catalog credentials eval files gate input origin mcpserver model n8n netguard part pii \
	policy process program remote run runs sandbox sandbox/wasm/worker slots store/redis task telemetry tiers)
OTHERS = ./internal/cli ./internal/bench $(filter-out $(patsubst ./%,mcp-code-exec-harness/%,$(SHARING)),$(shell $(GO) list ./...))
# What computes most in the tests of wiring, program and catalog, without more goroutines than the others have.
COMPUTING = TestHostile|TestLeak|TestOnly|TestChannels|TestExfiltration|TestLaundering|TestCompilingIsCharged|TestPrograms|TestHostileCode|TestOrdinaryCode|TestLinear|TestLiftAgainstTypeScript|TestHostileSchemas|TestHostileNames|TestGeneratedSchemasCompile|TestOrdinaryPrograms|TestOrdinarySet|TestTokensTold
# The program of child processes, which starts in a fraction of the time of a test binary, is in the tests' binaries as it is in the product.
EMBED = -tags embedchild,embedsite
# make lint vets the tests, too: go test would do it twice, with the detector and without it, for all that they import.
# Tests run without the GOGC that a compiler was given.
TESTED = -vet=off $(EMBED) $(if $(GOGC),-exec 'env -u GOGC')
GOTESTSUM = $(TOOL) gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg

# What make release builds for, and the address below which its files will be, which the formula of Homebrew needs.
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
RELEASE_URL ?=
RELEASE_FLAGS ?=

.PHONY: site clients compose compose-images compose-try evidence release release-try manifests test-deploy npm-servers all build childprogram demo test test-process test-postgres test-docker test-gvisor test-long children lint platforms lines bench load fmt conformance conformance-mcp agentdojo n8n

all: build

build: childprogram site ## the product, one file: bin/harness, with the program of child processes and the documents in it
	$(GO) build $(EMBED) -ldflags '$(LDFLAGS)' -o bin/harness ./cmd/harness

childprogram:
	$(GO) build -ldflags '-s -w' -o bin/harness-child ./cmd/harness-child
	gzip -nc bin/harness-child > internal/childprogram/child.gz

site: ## the documents as pages for browsers, which build embeds; SITE=DIR writes them into a directory too, for a web server
	$(GO) build -C tools/site -o ../../bin/site .
	./bin/site internal/site/site.zip
	$(if $(SITE),./bin/site $(SITE))

demo: build ## the main job with embedded defaults: no key, no network
	./bin/harness demo

test: childprogram site children ## every test; at the end what was skipped, and why
	CGO_ENABLED=$(if $(RACE),1,0) HARNESS_TEST_CHILDREN=$(if $(RACE),$(CURDIR)/bin/children) \
		$(GOTESTSUM) --jsonfile bin/test.json -- $(if $(RACE),$(RACE) $(PLAIN) -skip '^($(COMPUTING))$$') $(TESTED) -timeout 20m $(SHARING)
	$(GOTESTSUM) --jsonfile bin/test-others.json -- $(TESTED) -timeout 20m $(OTHERS)
	$(if $(RACE),$(GOTESTSUM) -- $(TESTED) -timeout 10m -run '^($(COMPUTING))$$' ./internal/wiring ./internal/program ./internal/catalog)
	$(if $(filter linux,$(shell $(GO) env GOOS)),$(MAKE) test-process)
	@sed -n 's/.*"Test":"\([^"]*\)".*"Output":" *[a-z_]*\.go:[0-9]*: \(the seed is [0-9]*\).*/\1: \2/p' bin/test.json bin/test-others.json

test-process: childprogram site ## the rules of runs once more, with programs in the process tier
	HARNESS_TEST_TIER=process $(GOTESTSUM) -- $(TESTED) -timeout 10m -run '^(TestRule|TestCrash|TestGenerated)' ./internal/wiring

test-postgres: childprogram site ## the tests of runs, tasks and crashes with stores in PostgreSQL, which it starts: postgresql (Debian)
	HARNESS_TEST_STORE=postgres $(GOTESTSUM) -- $(EMBED) -timeout 15m -run '^(TestRule|TestCrash|TestApproval|TestTask)' ./internal/wiring

test-docker: build ## the same with programs in containers: scripts/docker-engine make test-docker
	./bin/harness sandbox build
	CI=true HARNESS_TEST_TIER=docker $(GOTESTSUM) -- $(EMBED) -timeout 30m -run '^(TestRule|TestCrash|TestGenerated)' ./internal/wiring

test-long: export HARNESS_TEST_LONG = 1
test-long: test ## every test with the whole of each generated series

test-gvisor: ## the tests of containers with gVisor, which it builds; as root, with docker.io (Debian)
	GOBIN=$(CURDIR)/bin GOFLAGS=-mod=mod $(GO) install -ldflags '-s -w' gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237
	PATH=$(CURDIR)/bin:$$PATH HARNESS_TEST_DOCKER_RUNTIME=runsc scripts/docker-engine $(GO) test -count 1 -timeout 20m ./internal/sandbox/docker

n8n: ## the tests of n8n against a real one, which it installs (1.8 GB)
	scripts/n8n sh -c '$(GO) test -count 1 -timeout 10m ./internal/n8n && $(GO) test -count 1 -timeout 10m -run N8N -v ./internal/cli'

npm-servers: build ## servers from npm with empty caches: a table of which start, list and answer
	scripts/npm-servers

release: site ## archives, packages and the image of this commit, with SBOMs and checksums: dist/
	$(GO) build -C tools/release -o ../../bin/release .
	./bin/release -url '$(RELEASE_URL)' -platforms '$(RELEASE_PLATFORMS)' $(RELEASE_FLAGS)

release-try: ## whether archive, packages and image of dist/ work on this machine; scripts/docker-engine make release-try has the image too
	scripts/try-release

compose: compose-images ## two replicas with PostgreSQL, Redis, Prometheus and Grafana in containers: DEBIAN=1 for images of Debian's packages, without a registry
	scripts/compose

compose-images: site
	$(GO) build -C tools/release -o ../../bin/release .
	./bin/release -dir bin/compose -platforms linux/$(shell $(GO) env GOHOSTARCH) -dirty
	$(if $(DEBIAN),mmdebstrap --variant=minbase --include='postgresql redis-server prometheus' $$(. /etc/os-release && echo $$VERSION_CODENAME) bin/compose/services.tar)

compose-try: DEBIAN = 1
compose-try: compose-images ## whether make compose works, and whether a task outlives its replica: as root, with docker.io, docker-compose and mmdebstrap (Debian)
	HARNESS_TEST_COMPOSE=1 scripts/docker-engine --networks $(GO) test -count 1 -timeout 10m -run TestComposeReplicas -v ./deploy

manifests: ## the plain manifests of deploy/kubernetes, rendered from its chart
	$(GO) build -C tools/deploy -o ../../bin/deploy .
	./bin/deploy deploy/kubernetes deploy/kubernetes/manifests.yaml

test-deploy: ## whether the manifests are what the chart renders, and objects of Kubernetes without unknown fields; the packages of the clients
	$(GO) test -C tools/release -count 1 .
	$(GO) test -C tools/site -count 1 .
	$(GO) test -C tools/deploy -count 1 . # the cache of tests does not see files outside of the module

clients: ## what is generated from the OpenAPI document: the types of the client in TypeScript, and the collection for Postman and Insomnia
	$(GO) test ./internal/cli -run 'TestClientsTypeScript|TestClientsPostman' -update

children: childprogram site
	$(if $(RACE),$(GO) test $(EMBED) -c -o bin/children/ $(CHILDREN))

lint: platforms ## formatting, vet and more static analysis, tidy modules, every platform
	$(TOOL) golangci-lint run
	$(GO) mod tidy -diff

platforms: ## whether the types are right on every platform
	$(GO) build -C tools -o ../bin/platforms ./platforms
	./bin/platforms $(PLATFORMS)

conformance: ## rates of test262 and web-platform-tests in the guest, the bare engine and Node.js: TEST262=DIR WPT=DIR ARGS="-every 20"
	$(GO) run ./internal/testing/conformance $(if $(TEST262),-test262 $(TEST262)) $(if $(WPT),-wpt $(WPT)) $(ARGS)

agentdojo: ## what the presets of policy stop on the benchmark AgentDojo, of which it needs a checkout: DIR=path ARGS="-presets strict -v"
	$(GO) run ./internal/testing/agentdojo -dir '$(DIR)' $(ARGS)

conformance-mcp: build ## the official conformance suite of MCP against /mcp and our client, with what passed
	$(GO) test ./internal/cli -run 'TestConformance|TestTypeScriptClient' -count 1 -v

lines: ## lines of Go by package, without tests, their support and generated code, and those of the guest runtime
	@git ls-files '*.go' | grep -v -e _test.go -e ^internal/testing/ -e ^tools/ -e /testdata/ | \
		xargs grep -L '^// Code generated .* DO NOT EDIT' | xargs awk \
		'{d = FILENAME; sub("/[^/]*$$", "", d); n[d]++} END {for (d in n) {printf "%7d %s\n", n[d], d | "sort -k2"; all += n[d]}; close("sort -k2"); printf "%7d in all\n", all}'
	@git ls-files 'internal/guest/prelude/*.js' | grep -v /locales.js | xargs cat | grep -cvE '^[[:space:]]*(//.*)?$$' | \
		xargs printf '%7d of the guest runtime: JavaScript without blank lines, comments and the data of locales\n'

bench: build ## the budgets, measured on this machine
	./bin/harness bench

evidence: build ## every claim of docs/EVIDENCE.md, checked: ARGS="-only security" checks some, ARGS="-against docs/evidence" compares; TEST262=DIR WPT=DIR AGENTDOJO=DIR add suites
	$(GO) run ./internal/testing/evidence $(ARGS)

load: build ## users in turn and tasks at once, over HTTP; OLD=path measures another binary alternately
	$(GO) run ./internal/testing/load $(OLD) bin/harness

fmt:
	$(TOOL) golangci-lint fmt
