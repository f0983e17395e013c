# Everything starts here. Each target sets up what it needs; Python 3.11 or newer and make are all it takes.
#   make run     the whole stack on this machine, two bots playing a rated match, served until Ctrl-C
#   make demo    the same, but it ends after the match
#   make test    lint, types, protos, migrations and every test

PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?= -n 3 --dist loadfile
SOURCES := engine matchmaker services client tests k8s protos/build_hook.py .ci/setup.py .ci/tools.py .ci/supply.py
COMPILE := pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup tools protos fmt lint check test run demo bias soak sim chaos ops-demo long kills fuzz bench bench-check bench-matchmaking bench-drain bench-rating bench-growth arena image-rehearsal sbom licences audit lock clean

help: ## say what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r target text; \
		do printf '  make %-18s %s\n' "$$target" "$$text"; done

setup: ## make .venv from the locked requirements, generate the gRPC code (every target does this when needed)
	@$(PYTHON) .ci/setup.py $(if $(filter file,$(origin PYTHON)),,--with-this-python)

tools: setup ## get the programs that only tests need, Prometheus and promtool, into build/tools (`make test` does this)
	@$(BIN)/python .ci/tools.py

protos: setup ## generate the gRPC code into build/protos
	@$(BIN)/python protos/build_hook.py

fmt: setup ## format the code
	@$(BIN)/ruff check --quiet --fix-only $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/buf format --write protos

lint: setup ## style of the code
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

check: lint ## lint, types, protos, migrations
	$(BIN)/mypy
	$(BIN)/buf format --diff --exit-code protos
	$(BIN)/buf lint protos
	$(BIN)/squawk --config services/storage/squawk.toml services/storage/migrations/*.sql

test: check tools ## check, then every test against real processes and a real PostgreSQL
	$(BIN)/python -m pytest $(PYTEST_ARGS)

run: setup ## start the stack, let two bots play a rated match, serve until Ctrl-C
	@$(BIN)/python -m services.local run

demo: setup ## start the stack, let two bots play a rated match, stop
	@$(BIN)/python -m services.local demo

bias: setup ## deal DEALS times (2000000) and hold every count against what chance makes of a fair shuffle
	@$(BIN)/python -m tests.bias --deals $(or $(DEALS),2000000)

soak: setup ## play many random matches, checking every invariant
	@$(BIN)/python -m tests.soak $(SOAK_ARGS)

sim: setup ## many worlds in virtual time with every fault, SEEDS of them; then each rule taken away is found out
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),1)
	@$(BIN)/python -m tests.simulation --seeds 3000 --switch all

chaos: setup ## break real processes, links and PostgreSQL under running matches, then check everything
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

ops-demo: setup tools ## break four things under load: what status, alerts and ratings say, and that nobody lost on time wrongly
	@$(BIN)/python -m tests.opsdemo $(OPS_DEMO_ARGS)

long: setup ## outages of real minutes on real processes, and what else is too long for make test
	$(BIN)/python -m pytest -m long -s tests

kills: setup ## kill the leader of matchmaking under load, KILLS times (100); nobody may be lost or matched twice
	@$(BIN)/python -m tests.bench.population --seekers --kills $(or $(KILLS),100)

fuzz: setup ## fuzz every parser and the API for MINUTES (10): coverage-guided where there is a wheel of atheris
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement requirements-fuzz.txt
	@$(BIN)/python -m tests.fuzz run --minutes $(or $(MINUTES),10) $(FUZZ_ARGS)

bench: setup ## measure how fast everything is, part by part (BENCH_ARGS names some; docs/performance.md says what each is)
	@$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-check: setup ## measure in some minutes whether anything became slower, by ratios; BENCH_ARGS=--update keeps what is found
	@$(BIN)/python -m tests.bench.check $(BENCH_ARGS)

bench-matchmaking: setup ## measure pairing beside two simple rules in virtual time, then seekers on real processes
	@$(BIN)/python -m tests.bench.matchmaking $(BENCH_ARGS)
	@$(BIN)/python -m tests.bench.population $(POPULATION_ARGS)

bench-drain: setup ## take a game process with 100 live matches out of service: how long each stood still, and that none was lost
	@$(BIN)/python -m tests.bench.drain $(BENCH_ARGS)

bench-growth: setup ## measure what finished matches leave in the database, before and after their logs were moved
	@$(BIN)/python -m tests.bench.growth $(BENCH_ARGS)

bench-rating: setup ## measure how well the ladder finds out who is strong, beside plain Elo
	@$(BIN)/python -m tests.bench.rating $(BENCH_ARGS)

arena: setup ## play the house bots against each other, MATCHES a pairing (200): who is stronger, and how sure is that
	@$(BIN)/python -m client.arena greedy easy --matches $(or $(MATCHES),200)
	@$(BIN)/python -m client.arena strong greedy --matches $(or $(MATCHES),200)

image-rehearsal: setup ## carry the Dockerfile out without Docker and run the pods of production on what comes out (Linux, root)
	@$(BIN)/python -m tests.k8s.rehearsal

sbom: setup ## write what ships, with versions, hashes and licences, to build/sbom (CycloneDX)
	@$(BIN)/python .ci/supply.py sbom

licences: setup ## write docs/licences.md from the lock
	@$(BIN)/python .ci/supply.py licences

audit: setup ## ask the package index for known vulnerabilities of everything locked; what it cannot answer is a failure
	@for lock in requirements-dev.txt requirements-fuzz.txt k8s/image/requirements.txt k8s/image/requirements-build.txt; do \
		$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || exit 1; done

lock: ## resolve the dependencies anew and write the requirements files (UPGRADE=1 takes newer releases)
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet uv; }
	@build/lock/bin/uv $(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra local --output-file requirements.txt
	@build/lock/bin/uv $(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra local --extra tracing --group dev \
		--constraints requirements.txt --output-file requirements-dev.txt
	@build/lock/bin/uv $(COMPILE) pyproject.toml --extra tracing --constraints requirements-dev.txt \
		--output-file k8s/image/requirements.txt
	@build/lock/bin/uv $(COMPILE) --group fuzz --constraints requirements-dev.txt --output-file requirements-fuzz.txt
	@build/lock/bin/uv $(COMPILE) --group build --constraints requirements-dev.txt \
		--output-file k8s/image/requirements-build.txt

clean: ## remove what was made, the data of the local stack too; .venv stays
	rm -rf build dist .local .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf $(addprefix client/examples/typescript/,node_modules generated dist)
