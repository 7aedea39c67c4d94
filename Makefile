# The targets that people use. CMake does the building (CMakeLists.txt, CMakePresets.json).
#
#   make train      a first training run, from a fresh machine to a validation accuracy
#   make test       every test
#   make help       the rest

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

export CTEST_OUTPUT_ON_FAILURE = 1

build_folder_release = build
build_folder_debug = build-debug
build_folder_asan = build-asan
build_folder_tsan = build-tsan
build_folder_fuzz = build-fuzz

# $(call cmake_build,PRESET,TARGETS,CONFIGURE OPTIONS): uses Ninja where it is installed. A build
# folder keeps the generator that it was created with.
define cmake_build
@command -v cmake >/dev/null || { \
    echo "make: cmake is missing; make deps installs what yoke needs" >&2; exit 1; }
@command -v ninja >/dev/null && : "$${CMAKE_GENERATOR:=Ninja}" && export CMAKE_GENERATOR; \
    out=$$(cmake --preset $(1) --log-level=WARNING $(3) 2>&1) || { echo "$$out" >&2; exit 1; }
@cmake --build $(build_folder_$(1)) --parallel $(JOBS) --target $(2)
endef

# $(call run_tests,PRESET,OPTIONS): as many tests as keep JOBS cores busy, and two that only wait
# beside them (tests/CMakeLists.txt). Those that compute do so for less than half of their time, except
# under the sanitizers, where waiting takes time, too.
computing_release = $$(($(JOBS) * 2))
define run_tests
@printf '{"version": {"major": 1, "minor": 0}, "local": [{"cores": [{"id": "all", "slots": %d}]}]}\n' \
    $(or $(computing_$(1)),$(JOBS)) >$(build_folder_$(1))/cores.json
ctest --test-dir $(build_folder_$(1)) --resource-spec-file cores.json --no-tests=error \
    --parallel $(if $(computing_$(1)),$$(($(computing_$(1)) + 2)),$(JOBS)) \
    $(2) $(if $(T),--tests-regex '$(T)')
endef

.PHONY: check
check: ## build, and run the fast tests (the default)
	$(call cmake_build,release,all)
	@pkg-config --exists cmocka || { echo "make: no tests without cmocka; make deps installs it"; exit 1; }
	$(call run_tests,release,--label-exclude '^(backends|faults|parity|build|hosts|launchers)$$')

.PHONY: deps
deps: ## only install the packages that building and testing need and that are missing
	@scripts/install-deps build test pypi

.PHONY: train
train: ## install what is missing, build, train on 2 ranks; DATA=DIR uses your copy of CIFAR-10
	@scripts/install-deps build
	$(call cmake_build,release,yoke_program yoke_devices)
	@scripts/train "$(DATA)"

.PHONY: test
test: ## install what is missing, build, run every test; T=REGEX runs the tests whose names match
	@scripts/install-deps build test pypi
	$(call cmake_build,release,all)
	$(call run_tests,release)

.PHONY: build
build: ## build the program (build/yoke) and the library; installs nothing
	$(call cmake_build,release,yoke yoke_program yoke_devices yoke_manual)

.PHONY: debug
debug: ## build for a debugger, in build-debug/
	$(call cmake_build,debug,all)

.PHONY: asan tsan
asan tsan: ## every test under AddressSanitizer + UBSan, or under ThreadSanitizer; T=REGEX too
	@scripts/install-deps build test $@
	$(call cmake_build,$@,all)
	$(call run_tests,$@)

.PHONY: fuzz
fuzz: ## fuzz every file reader for FUZZ_SECONDS (20) each; T=NAME fuzzes one
	@scripts/install-deps build fuzz
	$(call cmake_build,fuzz,yoke_fuzz)
	@tests/fuzz/run build-fuzz $(T)

.PHONY: inject-faults
inject-faults: ## N (300) random faults in trainings on two hosts, from SEED (1) on
	@scripts/install-deps build test
	$(call cmake_build,release,all)
	@YK_TEST_FAULTS=$(or $(N),300) YK_TEST_SEED=$(or $(SEED),1) YOKE_PROGRAM=$(CURDIR)/build/yoke \
	    YOKE_SOURCE=$(CURDIR) YOKE_MODULES=$(CURDIR)/build build/tests/test_host_faults random_faults

.PHONY: lint
lint: ## formatting, layers, headers, words, static analysis
	@scripts/install-deps build test lint
	$(call cmake_build,release,yoke)
	@scripts/lint build

.PHONY: fmt
fmt: ## format the sources
	@scripts/lint --fix

.PHONY: bench
bench: ## measure yoke and its peers on this machine
	@scripts/install-deps build bench
	$(call cmake_build,release,all,-DYOKE_BENCH=ON)
	@for run in bench/*/run; do "$$run" build || exit 1; done

.PHONY: docs
docs: ## write the HTML site to build/docs/html, from docs/ and the public headers
	@scripts/install-deps docs
	@mkdir -p build/docs
	doxygen docs/site/Doxyfile

.PHONY: install
install: ## install the program, the library and its headers below PREFIX (/usr/local)
	$(call cmake_build,release,yoke yoke_program yoke_devices yoke_manual)
	cmake --install build --prefix "$(PREFIX)"

.PHONY: deb deb-check
deb: ## build packages of Debian from the last commit, in build-deb/
	@scripts/install-deps build deb
	@scripts/make-deb

deb-check: ## build them, and try them on clean trees of Debian 12 and 13 (as root; minutes)
	@scripts/install-deps build deb
	@scripts/make-deb --check

.PHONY: clean
clean: ## remove what was built
	rm -rf build build-debug build-asan build-tsan build-fuzz build-deb

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z ]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
