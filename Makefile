# A short front to the CMake presets: `make help`.
JOBS ?= $(shell nproc)
build = cmake --preset $(1) >build/$(1).log || { cat build/$(1).log; exit 1; }; cmake --build --preset $(1) -j $(JOBS) $(2)
ctest = ctest --preset $(1) -j $(JOBS) --no-tests=error
# The thread sanitizer of gcc 12 cannot start where addresses are spread widely.
steady = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: build setup demo model test quick tsan check-full fuzz bench coverage lint install abi-update clean help
build: | build/         ## build the library and the command (preset release)
	@$(call build,release)
setup:                  ## install the Debian packages of packages.txt that are absent
	@tools/setup.sh
demo: setup | build/    ## build, get a small model, make text inside a memory budget
	@$(call build,release,--target neap)
	@tools/get_model.sh
	@tools/demo.sh build/release/neap
model: setup            ## get the model of the demo and of the tests into .models/
	@[ -n "$$NEAP_MODEL" ] || tools/get_model.sh || echo "no model: the tests that need it are skipped"
test: model             ## build and run every test
	@$(MAKE) --no-print-directory build
	@$(call ctest,release)
quick: | build/         ## the quick tests under the address and undefined behaviour sanitizers
	@$(call build,asan)
	@$(call ctest,asan) -L quick
tsan: | build/          ## the pool and evaluation tests under the thread sanitizer
	@$(call build,tsan)
	@$(steady) $(call ctest,tsan) -L tsan
check-full: model | build/  ## every test under each sanitizer (long)
	@$(call build,asan)
	@$(call ctest,asan)
	@$(call build,tsan)
	@$(steady) $(call ctest,tsan)
fuzz: | build/          ## every fuzz target for SECONDS (60)
	@$(call build,fuzz)
	@tools/fuzz.sh $(or $(SECONDS),60)
bench: build            ## every benchmark
	@for b in build/release/bench/bench_*; do if [ -x $$b ]; then echo "== $$b"; $$b || exit 1; fi; done
coverage: | build/      ## line coverage of src/ (needs gcovr)
	@$(call build,coverage)
	@$(call ctest,coverage)
	@gcovr --root . --filter src/ --print-summary build/coverage
lint: build             ## clang-tidy and cppcheck (need those packages)
	@tools/lint.sh
install: build          ## install (PREFIX=/usr/local)
	@cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))
abi-update: build       ## write tests/abi/symbols.txt from the shared library
	@cmake --build --preset release --target abi-update
clean:                  ## remove build/
	@rm -rf build
help:                   ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20
build/:
	@mkdir -p build
