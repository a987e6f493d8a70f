# The front door. `make help` lists the targets; each says what it installs and how long its parts took.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.cache/bin:$(PATH)
TIMED := hack/timed.sh
IMG ?= causeway:latest
# The node agent's image, and the namespace in which flannel's ConfigMap is.
NODE_IMG ?= causeway-node:latest
NODE_NAMESPACE ?= kube-flannel
NODE_OUT ?= deploy-node.yaml
# What the controller does, as its --enable has it: each has its rights in deploy/<name>.yaml.
ENABLE ?= vpc,dns
OUT ?= deploy.yaml
# The property tests' inputs are the same in every run of `make test`, so that a red one is the change's doing;
# `make explore` draws new ones.
SEED ?= 20261117
# Optimized a little: see Cargo.toml.
SIMULATION := cargo test --workspace --profile simulation --test simulation
comma := ,
ROOMS = $(subst $(comma), ,$(ENABLE))
CRDS = $(if $(filter vpc,$(ROOMS)),deploy/crds.yaml) $(patsubst %,deploy/%-crds.yaml,$(filter dns rules networks,$(ROOMS)))
MANIFESTS = deploy/controller.yaml $(patsubst %,deploy/%.yaml,$(ROOMS)) $(if $(filter vpc,$(ROOMS)),deploy/submariner.yaml)

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## Build target/release/causeway.
	@$(TIMED) "build" cargo build --release --workspace --bins

.PHONY: sandbox
# Without optimization: the compiler is done in half the time, and the tests use the same build.
sandbox: ## Build, then run two clusters or more on this machine and join their VPCs (ARGS="--clusters 3 …").
	@hack/setup.sh sandbox
	@$(TIMED) "build" cargo build --workspace --bins
	@target/debug/causeway sandbox $(ARGS)

.PHONY: test
# A kubeconfig in the environment is somebody's cluster, not one to test on.
test: ## Install what is missing, then run every test.
	@hack/setup.sh test
	@$(TIMED) "build the tests" cargo test --workspace --no-run
	@$(TIMED) "build the simulation" $(SIMULATION) --no-run
	@$(TIMED) "unit, property and integration tests" env -u KUBECONFIG PROPTEST_RNG_SEED=$(SEED) hack/tests.sh

.PHONY: explore
explore: ## Property tests of the pure floors with CASES=5000 new inputs each, from a seed that is printed.
	@seed=$${SEED:-$$RANDOM$$RANDOM}; echo "explore: PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(or $(CASES),5000)"; \
	PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(or $(CASES),5000) $(TIMED) "property tests" \
	  cargo test -p causeway-core -p causeway-api -p causeway-datapath --no-fail-fast

.PHONY: simulate
simulate: ## Simulate RUNS=10000 histories of two clusters, from a seed that is printed; SEED=n RUNS=1 replays one and prints it.
	@$(TIMED) "build the simulation" $(SIMULATION) --no-run
	@seed=$${SEED:-$$RANDOM$$RANDOM}; echo "simulate: SEED=$$seed RUNS=$(or $(RUNS),10000)"; \
	CAUSEWAY_SEED=$$seed CAUSEWAY_RUNS=$(or $(RUNS),10000) $(TIMED) "simulation" \
	  $(SIMULATION) -- --nocapture whatever_happens

.PHONY: check
check: ## Formatting, lints, dependencies.
	@hack/setup.sh check
	@$(TIMED) "format" cargo fmt --all --check
	@$(TIMED) "lints" cargo clippy --workspace --all-targets -- -D warnings
	@$(TIMED) "lints of the production builds" cargo clippy -p causeway --no-default-features -- -D warnings
	@$(TIMED) "with the node agent" cargo clippy -p causeway --no-default-features --features node -- -D warnings
	@$(TIMED) "dependencies" cargo deny --all-features check bans licenses sources
	@$(TIMED) "unused dependencies" cargo machete

.PHONY: advisories
advisories: ## Known vulnerabilities of dependencies; fetches the advisory database.
	@hack/setup.sh check
	@$(TIMED) "advisories" cargo deny --all-features check advisories

.PHONY: bench
# A kubeconfig that happens to be in the environment is somebody's cluster; only one given here is meant.
bench: ## Measure: first packet, one tunnel, 1,000, 5,000 on one gateway, … (KUBECONFIG=FILE: on a real API server).
	@hack/setup.sh bench
	@$(TIMED) "build" cargo build --release --workspace --bins
ifeq ($(origin KUBECONFIG),command line)
	@kubelet=$$(hack/control-plane-build.sh)/causeway-kubelet; \
	CAUSEWAY_KUBELET=$$kubelet BENCH_KUBECONFIG=$(abspath $(KUBECONFIG)) \
	  $(TIMED) "benchmarks on a real API server" cargo bench -p causeway --bench scale -- $(PARTS)
else
	@$(TIMED) "benchmarks" cargo bench -p causeway
endif

.PHONY: api-suite
api-suite: ## Run the Kubernetes API suite against $$KUBECONFIG, or without it against our own server.
	@$(TIMED) "API suite" cargo test -p causeway-apiserver --test suite --test kubectl -- --nocapture

.PHONY: sdk
sdk: ## The released Java SDK gets its rules from a controller on port 10246.
	@hack/setup.sh sdk
	@$(TIMED) "build the test" cargo test -p causeway --test rules_sdk --no-run
	@$(TIMED) "the Java SDK" env -u KUBECONFIG cargo test -p causeway --test rules_sdk -- --ignored --nocapture

.PHONY: peers
peers: ## Build flanneld and flannel's CNI plugin once, and run them beside causeway node in one cluster.
	@hack/setup.sh peers
	@$(TIMED) "flannel's programs" hack/peers-build.sh
	@$(TIMED) "build the test" cargo test -p causeway --test node_peers --no-run
	@$(TIMED) "beside flannel" env -u KUBECONFIG cargo test -p causeway --test node_peers -- --ignored --nocapture

.PHONY: dns
dns: ## Build a CoreDNS once, and have it resolve a name of another cluster through a sandbox's tunnel.
	@hack/setup.sh dns
	@$(TIMED) "CoreDNS" hack/dns-build.sh
	@$(TIMED) "build the test" cargo test -p causeway --test dns_query --no-run
	@$(TIMED) "names of other clusters" env -u KUBECONFIG cargo test -p causeway --test dns_query -- --ignored --nocapture

.PHONY: ovn
ovn: ## A VPC's main gateway changes, and a real OVN router's next hops follow, and nothing else of it does.
	@hack/setup.sh ovn
	@$(TIMED) "build the test" cargo test -p causeway --test ovn --no-run
	@$(TIMED) "a real OVN" env -u KUBECONFIG cargo test -p causeway --test ovn -- --ignored --nocapture

.PHONY: replicas
replicas: ## Take the lead from one of two replicas in every way, ROUNDS=50 times each; 3 times with real leases.
	@hack/setup.sh test
	@$(TIMED) "build the tests" cargo test -p causeway --no-run
	@CAUSEWAY_ROUNDS=$(or $(ROUNDS),50) $(TIMED) "leases at a tenth" cargo test -p causeway --test replicas -- --nocapture
	@CAUSEWAY_ROUNDS=3 CAUSEWAY_LEASE_MS=15000 $(TIMED) "real leases" cargo test -p causeway --test replicas -- --nocapture

.PHONY: real
real: ## Build a real control plane once, start two clusters and a broker, and test on them (TESTS="tunnels …").
	@hack/setup.sh real
	@$(TIMED) "control plane" hack/control-plane-build.sh
	@$(TIMED) "build the tests" cargo test --workspace --no-run
	@$(TIMED) "real control plane" hack/real.sh $(TESTS)

.PHONY: real-up
real-up: ## Start real API servers in .cache/real and leave them running: cluster1, cluster2, broker.
	@hack/setup.sh real
	@$(TIMED) "real API servers" hack/control-plane.sh up .cache/real cluster1 cluster2 broker
	@echo "kubeconfigs: $$(ls .cache/real/*.kubeconfig | tr '\n' ' ')"

.PHONY: real-down
real-down: ## Stop what real-up started.
	@hack/control-plane.sh down .cache/real

.PHONY: manifests
manifests: ## Write deploy/crds.yaml and deploy/{dns,rules,networks}-crds.yaml from the types.
	@cargo run -q -p causeway --no-default-features -- crds --enable vpc > deploy/crds.yaml.new
	@mv deploy/crds.yaml.new deploy/crds.yaml
	@for room in dns rules networks; do \
	  cargo run -q -p causeway --no-default-features -- crds --enable $$room > deploy/$$room-crds.yaml.new; \
	  mv deploy/$$room-crds.yaml.new deploy/$$room-crds.yaml; \
	done

.PHONY: deploy
deploy: ## Write deploy.yaml: everything that a cluster needs, with image IMG and the rights of what ENABLE lists.
	@[[ "$(ENABLE)" =~ ^[a-z]+(,[a-z]+)*$$ ]] || { echo "ENABLE='$(ENABLE)': a list such as vpc is expected" >&2; exit 1; }
	@for part in $(MANIFESTS); do [[ -f $$part ]] || { echo "ENABLE=$(ENABLE): there is no $$part" >&2; exit 1; }; done
	@for part in $(CRDS) $(MANIFESTS); do echo '---'; sed 's|image: causeway:latest|image: $(IMG)|; s|--enable=vpc,dns|--enable=$(ENABLE)|' $$part; done > $(OUT)
	@echo "$(OUT) written; kubectl apply -f $(OUT)"

.PHONY: deploy-node
deploy-node: ## Write deploy-node.yaml: the node agent with image NODE_IMG, in NODE_NAMESPACE; docs/node.md says how to go over.
	@sed 's|image: causeway-node:latest|image: $(NODE_IMG)|; s|namespace: kube-flannel$$|namespace: $(NODE_NAMESPACE)|' deploy/node.yaml > $(NODE_OUT)
	@echo "$(NODE_OUT) written; kubectl apply -f $(NODE_OUT)"

.PHONY: dist
dist: ## Build the controller's production binary, target/dist/causeway, and see that it is at most 15 MB.
	@$(TIMED) "production build" cargo build --profile dist --locked --package causeway --no-default-features
	@size=$$(stat -c %s target/dist/causeway); echo "target/dist/causeway: $$size bytes"; ((size <= 15000000))

.PHONY: docker-build
docker-build: ## Build the production images IMG and NODE_IMG (without the sandbox).
	docker build -t $(IMG) --target controller -f deploy/Dockerfile .
	docker build -t $(NODE_IMG) --target node -f deploy/Dockerfile .

.PHONY: docker-push
docker-push: ## Push IMG and NODE_IMG.
	docker push $(IMG)
	docker push $(NODE_IMG)

.PHONY: install
install: ## Install the definitions into the cluster of your kubeconfig (ENABLE=vpc,dns,rules,networks: all of them).
	kubectl apply $(patsubst %,-f %,$(CRDS))

.PHONY: uninstall
uninstall: ## Delete every tunnel, forward and network, wait until all is clean, then remove the definitions (WAIT=120 FORCE=1).
	@hack/undeploy.sh

.PHONY: undeploy
undeploy: ## The same, then the controller and all else that deploy.yaml made (WAIT=120 FORCE=1).
	@hack/undeploy.sh deploy/{controller,vpc,dns,submariner,rules,networks}.yaml
