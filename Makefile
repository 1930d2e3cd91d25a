# Two commands to begin with, on a machine with Python 3.11+ and make: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

# For the targets that have to do with a cluster or an image. KUBECONFIG says which cluster.
CONTAINER_TOOL ?= docker
HELM ?= helm
KUBECTL ?= kubectl
NAMESPACE ?= flower-operator-system
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/flower_operator/__init__.py)
IMG ?= flower-operator:$(VERSION)
# Cut at the last colon; the chart puts one between the two again, so that ports and digests pass.
TAGGED := $(if $(findstring :,$(IMG)),$(IMG),$(IMG):latest)
TAG := $(lastword $(subst :, ,$(TAGGED)))
RELEASE := flower-operator dist/chart --namespace $(NAMESPACE) \
	--set-string manager.image.repository=$(TAGGED:%:$(TAG)=%),manager.image.tag=$(TAG)

.PHONY: help setup demo test test-all test-unit test-local test-cluster test-fleet test-node node-packages check lint lint-fix manifests generate \
	lock bench clean build image docker-build docker-push build-installer install uninstall deploy undeploy run

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## the virtual environment

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.locked: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flower-operator needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

demo: setup ## four SuperNodes train a model that none of them could alone
	@$(BIN)/python -m scripts.demo

test: setup ## what every change must pass: unit tests, real training, a real API server
	@$(BIN)/python -m scripts.suites quick

test-all: setup ## every test: also every Flower release, a fleet, a real node
	@$(BIN)/python -m scripts.suites all

test-unit: setup ## pure tests, seconds
	$(PYTEST) --numprocesses 2 tests/unit

test-local: setup ## real flwr releases
	$(PYTEST) --numprocesses 3 tests/local

test-cluster: setup ## a real Kubernetes API server
	$(PYTEST) --numprocesses 3 --dist loadfile tests/cluster

test-fleet: setup ## a real hub of Open Cluster Management, and clusters that join it
	$(PYTEST) tests/fleet

test-node: setup ## a real kubelet and containers; skipped unless root has node-packages
	$(PYTEST) tests/node

node-packages: ## what test-node and image need, on Debian
	apt-get update --quiet
	apt-get install --yes --quiet --no-install-recommends conntrack containerd \
		containernetworking-plugins iproute2 mmdebstrap nftables runc

check: lint ## lint, format, types, walls between rooms, generated files
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.manifests --check

lint: setup ## ruff
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-fix: setup ## what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

manifests: setup ## the CRD, the roles, the golden files and the reference, anew
	$(BIN)/python -m scripts.manifests

generate: manifests ## the same

# Newest versions that pyproject.toml allows, with hashes and without addresses.
lock: setup ## newer dependencies, with hashes
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --group dev pyproject.toml -o requirements/dev.txt
	echo hatchling | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --constraint requirements/dev.txt - -o requirements/build.txt

bench: setup ## figures
	$(BIN)/python -m bench

clean: ## remove what was built
	rm -rf $(VENV) build dist/install.yaml .mypy_cache .pytest_cache .ruff_cache .hypothesis

build: setup ## a wheel and an sdist in build/
	$(BIN)/python -m hatchling build --directory build

image: setup ## the operator's image, named IMG, in build/image.tar, by root and without a container tool
	$(BIN)/python -m scripts.image $(IMG) build/image.tar

docker-build: ## the operator's image, named IMG
	$(CONTAINER_TOOL) build --tag $(IMG) .

docker-push: ## IMG to its registry
	$(CONTAINER_TOOL) push $(IMG)

build-installer: ## dist/install.yaml: the operator with IMG, for plain kubectl apply
	@printf '%s\n' 'apiVersion: v1' 'kind: Namespace' 'metadata:' '  name: $(NAMESPACE)' \
		'  labels: {pod-security.kubernetes.io/enforce: restricted}' > dist/install.yaml
	$(HELM) template $(RELEASE) >> dist/install.yaml || { rm dist/install.yaml; exit 1; }

install: ## the CRD on the cluster
	$(KUBECTL) apply -f dist/crd.yaml

uninstall: ## the CRD and with it every Federation off the cluster
	$(KUBECTL) delete --ignore-not-found -f dist/crd.yaml

# The CRD may be there already, from `make install`.
deploy: ## the operator with IMG and the CRD on the cluster
	$(HELM) upgrade --install $(RELEASE) --create-namespace --server-side=true --take-ownership --force-conflicts

undeploy: ## the operator off the cluster; the CRD and the Federations stay
	$(HELM) uninstall flower-operator --namespace $(NAMESPACE) --ignore-not-found

run: setup ## the operator here, for the cluster of the current kubeconfig
	$(BIN)/flower-operator controller --metrics-bind-address 0 --health-probe-bind-address 127.0.0.1:8081
