# Everything this project does by hand. Needs Python >= 3.11, make and a package registry.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Each process would compile the sources, and each run of the tests rewrite them, anew.
unexport PYTHONDONTWRITEBYTECODE

ifndef PYTHON
PYTHON := $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$candidate" && break; done)
endif

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PAGES := README.md $(wildcard docs/*.md)
DEMO := build/demo

# Made again only when pyproject.toml changes; the install is editable, so edits need none.
INSTALLED := .venv/installed.stamp
EQUIPPED := .venv/equipped.stamp
# Beside what a plain install has, the pictures.
PICTURED := .venv/pictured.stamp

# What users have: no scipy beside numba, which would slow its start.
RUN_BIN := build/bench/venv/bin
RUN_TIME := build/bench/venv/installed.stamp

# What users would pick instead, for the benchmarks.
PEER_BIN := build/bench/peers/bin
PEERS := build/bench/peers/installed.stamp

# Each processor takes a stretch of the tests, so that most files have one, and what they share is made once.
SPREAD := -n auto --dist worksteal

.PHONY: help demo test warm test-more same-bytes test-browser test-lowest fuzz faults robustness compat line-coverage mutants lint format bench bench-methods profile bench-watch readme docs gallery evidence evidence-hetcal coverage reproduce reproduce-arora reproduce-durfee reproduce-papers reproduce-raters schedules \
	test-postgres evidence-export \
	reproduce-vad vad-real-files evidence-streaming \
	evidence-cluster evidence-auto evidence-dropout evidence-vad-networks evidence-modes evidence-pictures evidence-certified evidence-ties evidence-drift evidence-auc-splits evidence-bundle evidence-watch evidence-watch-peers evidence-estimate-peers intervals intervals-small sample-data dist dist-compiled test-dist evidence-estimate same-dist evidence-calibrators evidence-several clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(PICTURED)  ## install, fit a boundary on the sample data, apply it to other rows, and write a report on them
	@mkdir -p $(DEMO)
	$(BIN)/calibkit warmup
	$(BIN)/calibkit boundary sample_data/calib.parquet --precision 0.7 --uncertainty-bins 3 --test sample_data/test.parquet -o $(DEMO)/boundary.json
	$(BIN)/calibkit apply $(DEMO)/boundary.json sample_data/test.parquet -o $(DEMO)/decisions.parquet
	$(BIN)/calibkit evaluate sample_data/test.parquet --boundary $(DEMO)/boundary.json --report $(DEMO)/report.html -q -o $(DEMO)/metrics.json
	@echo "Open the report: file://$(CURDIR)/$(DEMO)/report.html"

warm: $(EQUIPPED)  ## compile all kernels
	$(BIN)/calibkit warmup

test: lint warm  ## lint, then run all tests compiled and those of the kernels once more interpreted
	$(BIN)/python -m pytest $(SPREAD) -m "not more"
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(SPREAD) tests/kernels

test-more: $(EQUIPPED)  ## the tests that make test leaves out, as they take long and seldom fail alone
	$(BIN)/python -m pytest $(SPREAD) -m more tests

same-bytes: $(EQUIPPED)  ## every fit with every budget, order, split, shard and engine, on more rows than make test takes
	SAME_BYTES=1 $(BIN)/python -m pytest -n auto tests/cli/test_one_program.py

test-browser: $(EQUIPPED)  ## look at reports in chromium: light, dark, phone, paper (make test does it as well)
	$(BIN)/python -m pytest -n auto -rs tests/browser

test-lowest: pyproject.toml | .venv/bin/python  ## run the tests with the oldest versions that pyproject.toml allows
	.venv/bin/python -m venv build/lowest
	awk '/^dependencies/,/^]/' pyproject.toml | sed -n 's/^ *"\(.*\)>=\(.*\)",$$/\1==\2/p' > build/lowest/constraints.txt
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c build/lowest/constraints.txt --group dev --editable .
	build/lowest/bin/python -m pytest -n auto tests/kernels tests/library tests/cli

fuzz: $(EQUIPPED)  ## damage COUNT inputs (100,000) at random and put them through every command
	PYTHONPATH=.:kernels:cli $(BIN)/python -m tests.fuzz.run --count $(or $(COUNT),100000)

faults: $(EQUIPPED)  ## disturb every command that writes: kills, full disks, shrinking inputs
	PYTHONPATH=.:kernels:cli $(BIN)/python -m tests.faults.run --times $(or $(TIMES),3)

schedules: $(EQUIPPED)  ## run COUNT schedules (10,000): shards, merges, tasks and files in any order, twice, lost, damaged, killed
	PYTHONPATH=.:kernels:cli $(BIN)/python -m tests.schedules.run --count $(or $(COUNT),10000)

robustness: $(EQUIPPED)  ## fuzz and faults, into docs/evidence/robustness.md
	PYTHONPATH=.:kernels:cli $(BIN)/python docs/evidence/write_robustness.py --count $(or $(COUNT),100000) --times $(or $(TIMES),3)

compat: $(EQUIPPED)  ## store models and states of this version, which later versions must read: tests/compat
	PYTHONPATH=.:kernels:cli $(BIN)/python -m tests.compat.write

line-coverage: $(EQUIPPED)  ## measure which lines and branches the tests reach, kernels without compilation (at least 95 %): docs/evidence/coverage_lines.md
	rm -rf build/coverage && mkdir -p build/coverage
	CI=1 PYTHONPATH=.:kernels:cli $(BIN)/python -m coverage run -m pytest -p tests.mutants.reached -n 2 -k 'not third_of_a_second' tests/library tests/cli tests/fuzz tests/compat tests/postgres
	CI=1 NUMBA_DISABLE_JIT=1 PYTHONPATH=.:kernels:cli $(BIN)/python -m coverage run -m pytest -p tests.mutants.reached -n 2 tests/kernels
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet -o build/coverage/lines.json
	$(BIN)/python docs/evidence/write_line_coverage.py build/coverage/lines.json

mutants: $(EQUIPPED)  ## change library, kernels and command line in COUNT places (1,000); do tests that reach them (make line-coverage) notice? docs/evidence/mutants.md
	@test -f build/coverage/seconds.json || $(MAKE) line-coverage
	PYTHONPATH=.:kernels:cli $(BIN)/python -m tests.mutants.run --count $(or $(COUNT),1000) -o docs/evidence/mutants.md

test-postgres: $(EQUIPPED)  ## run exported SQL on a PostgreSQL server started for it (needs Debian's postgresql, or initdb)
	$(BIN)/python -m pytest tests/postgres -rs

lint: $(EQUIPPED)  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(EQUIPPED)  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(PEERS) $(RUN_TIME)  ## measure speed and memory (LARGE=1: 50 million rows too), write docs/evidence/benchmarks.md
	$(PEER_BIN)/python benchmarks/bench.py startup boundary mist evaluate grid growth profile --python $(RUN_BIN)/python $(if $(LARGE),--large)
	$(PEER_BIN)/python benchmarks/write_page.py

bench-methods: $(PEERS) $(RUN_TIME)  ## the same of all other methods: docs/evidence/methods_speed.md
	$(PEER_BIN)/python benchmarks/bench.py calibrate vad hetcal raters certified smooth --python $(RUN_BIN)/python
	$(PEER_BIN)/python benchmarks/write_methods_page.py

bench-watch: $(RUN_TIME)  ## a year of nights of 100,000 rows through `watch`: time and size, into docs/evidence/watch.md
	$(BIN)/python benchmarks/bench.py watch --python $(RUN_BIN)/python

profile: $(RUN_TIME)  ## print where the time of a boundary on 10 million rows goes
	$(RUN_BIN)/python benchmarks/profile_boundary.py

readme: docs  ## write the true output into the console blocks of README and docs
	$(BIN)/python -m tests.console_blocks --write $(PAGES)

docs: $(EQUIPPED)  ## write the command reference, docs/commands.md, and the JSON Schemas, docs/schemas
	$(BIN)/python docs/write_commands.py
	$(BIN)/python docs/write_schemas.py

gallery: $(EQUIPPED)  ## draw the pictures of docs/gallery.md again
	$(BIN)/python docs/write_gallery.py

evidence: $(INSTALLED)  ## judge all methods on real score files (folder DATA) and write docs/evidence/
	$(BIN)/python docs/evidence/write_real_files.py $(DATA)

coverage: $(EQUIPPED)  ## simulate certified boundaries 1,000 times a cell (hours): docs/evidence/coverage.md
	$(BIN)/python docs/evidence/write_coverage.py $(if $(REPLICATIONS),--replications $(REPLICATIONS) --kinds $(REPLICATIONS))

# Each part takes as many runs as its paper, but for the networks of Durfee et al.: FULL=1 trains all.
reproduce: reproduce-arora reproduce-durfee reproduce-raters reproduce-vad evidence-dropout evidence-vad-networks evidence-modes evidence-ties reproduce-papers  ## the tables and figures of the five papers beside ours (folder DATA)

reproduce-papers: $(EQUIPPED)  ## the scoreboard, and curves of numbers that stand on the pages of the others: docs/evidence/papers.md
	$(BIN)/python docs/evidence/write_papers.py

reproduce-durfee: $(INSTALLED)  ## networks before and after hetcal (Durfee, Gupta and Basu): docs/evidence/durfee.md
	$(BIN)/python docs/evidence/write_durfee.py $(DATA) $(if $(FULL),--runs 5 --epochs 100 --rates 8)

reproduce-arora: $(EQUIPPED)  ## theory, tables and run times of Arora et al. (folder DATA), about 3 minutes: docs/evidence/arora*.md
	$(BIN)/python docs/evidence/write_arora.py
	$(BIN)/python docs/evidence/write_arora_criteo.py $(DATA)
	$(BIN)/python docs/evidence/write_arora_runtimes.py

reproduce-raters: $(INSTALLED)  ## votes simulated and real (Mimori et al., figure 1, table 2): docs/evidence/raters.md
	$(BIN)/python docs/evidence/write_raters.py $(DATA)

reproduce-vad: $(INSTALLED)  ## simulated selections (Fan, Si and Zhang, tables 1, 4 to 7): docs/evidence/vad_simulation.md
	$(BIN)/python docs/evidence/write_vad_simulation.py --replications $(or $(REPLICATIONS),$(if $(FULL),1000,100))

vad-real-files: $(INSTALLED)  ## bias of selected rows on real ensembles (folder DATA): docs/evidence/vad_real_files.md
	$(BIN)/python docs/evidence/write_vad_real_files.py $(DATA)

evidence-auto: $(INSTALLED)  ## judge the automatic choice against its candidates on real score files (folder DATA)
	$(BIN)/python docs/evidence/write_auto.py $(DATA)

evidence-several: $(INSTALLED)  ## judge several uncertainties against the best of them on real score files (folder DATA)
	$(BIN)/python docs/evidence/write_several.py $(DATA)

evidence-calibrators:  ## calibrators and the choice among them beside other packages (in an environment of its own) on real score files (folder DATA)
	python3 -m venv build/peers/calibrators
	build/peers/calibrators/bin/python -m pip install --quiet -e . scikit-learn 'netcal==1.4.*' 'venn-abers==1.5.*' 'probmetrics==1.3.*' 'splinecalib==0.0.*'
	build/peers/calibrators/bin/python docs/evidence/write_calibrators.py $(DATA)

evidence-certified: $(EQUIPPED)  ## certified boundaries beside MAPIE (installs it) on real score files (folder DATA)
	$(PIP) install 'mapie==1.6.*'
	$(BIN)/python docs/evidence/write_certified.py $(DATA)

evidence-hetcal: $(EQUIPPED)  ## calibration by parts beside MCGrad and LightGBM (installs them) on real score files (folder DATA)
	$(PIP) install 'lightgbm==4.*' 'mcgrad==0.1.5'
	$(BIN)/python docs/evidence/write_hetcal.py $(DATA)

evidence-streaming: $(EQUIPPED) $(RUN_TIME)  ## 100 million rows within 2 GB (ten minutes, 3 GB of disk): docs/evidence/streaming.md
	$(BIN)/python benchmarks/study_streaming.py --python $(RUN_BIN)/python

evidence-cluster: $(EQUIPPED)  ## two Dask workers beside one process, and the sizes of states: docs/evidence/cluster.md
	$(BIN)/python benchmarks/study_cluster.py

evidence-dropout: $(EQUIPPED)  ## networks under dropout on score files (folder DATA; Arora, table 5 and figure 7): docs/evidence/dropout.md
	$(BIN)/python docs/evidence/write_dropout.py $(DATA)

evidence-vad-networks: $(EQUIPPED)  ## networks retrained under a shift (folder DATA; Fan, tables 8 to 11): docs/evidence/vad_networks.md
	$(BIN)/python docs/evidence/write_vad_networks.py $(DATA)

SETS := $(or $(DATA),../shared/data)
VOTES := $(SETS)/cifar10h/test.parquet --counts 'count_*' --probs 'vgg16_*,resnet110_*,lenet5_*'

evidence-pictures: $(PICTURED)  ## pictures of the papers by `calibkit plot` (folder DATA): docs/evidence/figures
	$(BIN)/calibkit plot heatmap $(SETS)/criteo_tau3/test.parquet -o docs/evidence/figures/arora_1b.svg
	$(BIN)/calibkit plot recall-gain $(SETS)/bank_tau5/calib.parquet --test $(SETS)/bank_tau5/test.parquet -o docs/evidence/figures/arora_6b.svg
	$(BIN)/calibkit plot dispersion $(VOTES) -o docs/evidence/figures/mimori_2a.svg
	$(BIN)/calibkit plot disagreement $(VOTES) -o docs/evidence/figures/mimori_2b.svg

evidence-modes: $(EQUIPPED)  ## why raters differ (Mimori, appendix E and figure 3): docs/evidence/modes.md
	$(BIN)/python docs/evidence/write_modes.py

evidence-ties: $(EQUIPPED)  ## thresholds with and without chance (Singh and Khim, figures 3 and 4): docs/evidence/f1.md
	$(BIN)/python docs/evidence/write_f1.py $(DATA)

evidence-drift: $(INSTALLED)  ## how often drift is found, and where there is none (folder DATA): docs/evidence/drift.md
	$(BIN)/python docs/evidence/write_drift.py $(DATA)

evidence-estimate: $(INSTALLED)  ## rates without labels beside those that labels show (folder DATA): docs/evidence/estimate.md
	$(BIN)/python docs/evidence/write_estimate.py $(DATA)

evidence-estimate-peers: $(INSTALLED)  ## the same with NannyML's estimates of the same draws, in an environment of its own
	$(BIN)/python -m venv build/peers/nannyml
	build/peers/nannyml/bin/python -m pip install --quiet nannyml==0.13.1 statsmodels
	$(BIN)/python docs/evidence/write_estimate.py $(DATA) --nannyml build/peers/nannyml/bin/python

evidence-bundle: $(INSTALLED)  ## block, review or pass: a bundle on card fraud (folder DATA): docs/evidence/bundle.md
	$(BIN)/python docs/evidence/write_bundle.py $(DATA)

evidence-auc-splits: $(EQUIPPED)  ## why splits by the AUC disappoint (folder DATA): docs/evidence/auc_splits.md
	$(BIN)/python docs/evidence/write_auc_splits.py $(DATA)

# Each in an environment of its own; what cannot be installed is passed over, its figures stay.
evidence-watch-peers:  ## other monitors on the nights of `make evidence-watch` (GLIDE_PYTHON=python3.12), five minutes; probcal for 10 streams
	for peer in mapie==1.6.0 probcal==0.4.0 glide-py==0.11.0; do \
		folder=build/peers/$${peer%%=*}; \
		case $$peer in glide*) python=$(or $(GLIDE_PYTHON),python3.12);; *) python=python3;; esac; \
		$$python -m venv $$folder && $$folder/bin/python -m pip install --quiet $$peer && \
		$$folder/bin/python docs/evidence/watch_peers.py $(if $(filter probcal%,$$peer),10,2000) || echo "$$peer: passed over"; \
	done

evidence-watch: $(EQUIPPED)  ## false alarms and delays of `watch` by simulation: docs/evidence/watch.md
	$(BIN)/python docs/evidence/write_watch.py

evidence-export: $(EQUIPPED)  ## exported models against apply on a million rows: docs/evidence/export.md
	$(BIN)/python docs/evidence/write_export.py $(if $(ROWS),--rows $(ROWS))

intervals: $(INSTALLED)  ## simulate how often intervals hold the truth, write docs/evidence/intervals.md
	$(BIN)/python docs/evidence/write_intervals.py

intervals-small: $(INSTALLED)  ## the same on 50 to 500 rows: docs/evidence/intervals_small.md
	$(BIN)/python docs/evidence/write_intervals_small.py

sample-data: $(INSTALLED)  ## simulate the files in sample_data/ again
	$(BIN)/python sample_data/make.py

dist: $(EQUIPPED)  ## build sdist and wheel (from that sdist) into dist/
	rm -rf dist
	PYTHONPATH=. $(BIN)/python release/write_sbom.py
	$(BIN)/python -m build --outdir dist .

dist-compiled: dist  ## a wheel in dist/ with compiled kernels too: for this Python, numba and system
	PYTHONPATH=.:kernels:cli $(BIN)/python release/compile_kernels.py dist/*-py3-none-any.whl -o dist

same-dist: dist  ## build twice: the same bytes
	rm -rf build/dist
	$(BIN)/python -m build --outdir build/dist .
	diff -r dist build/dist

test-dist: dist  ## install the wheel into an empty environment elsewhere, and run the README's story there
	set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check dist/*.whl; \
	$(BIN)/python -m tests.console_blocks --installed "$$folder/venv/bin" README.md; \
	cp -r sample_data README.md "$$folder"; cd "$$folder"; venv/bin/python -m doctest README.md; \
	venv/bin/calibkit --version

clean:  ## remove the environment and everything that was built
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 found; name one: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv

$(INSTALLED): pyproject.toml | .venv/bin/python
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --editable .
	@touch $@

$(PICTURED): $(INSTALLED)
	$(PIP) install --editable '.[plot]'
	@touch $@

$(EQUIPPED): $(INSTALLED)
	$(PIP) install --group dev
	@touch $@

# As users have it, not editable: made again when a source changes.
$(RUN_TIME): pyproject.toml $(shell find calibkit kernels cli -name '*.py') | .venv/bin/python
	.venv/bin/python -m venv build/bench/venv
	$(RUN_BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(RUN_BIN)/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

$(PEERS): pyproject.toml | .venv/bin/python
	.venv/bin/python -m venv build/bench/peers
	$(PEER_BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(PEER_BIN)/python -m pip install --quiet --disable-pip-version-check polars pyarrow pandas \
		scikit-learn 'netcal==1.*' 'venn-abers==1.*' 'mcgrad==0.1.5' 'lightgbm==4.*' 'mapie==1.6.*' 'relplot==1.*'
	@touch $@
