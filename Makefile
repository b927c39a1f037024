# Builds libreprise.so and reprise, and runs their tests. `make help` lists the targets.
#
# Sources are found by wildcard; a new file needs no line here. What the machine offers (CUDA, NCCL's header,
# libunwind) is found once by scripts/configure.sh and kept in $(BUILD)/config.mk.
#
# BUILD     the output folder (build; build-asan and build-tsan for the sanitizers)
# SANITIZE  value for -fsanitize=
# V         set it to see whole command lines

BUILD ?= build
Q := $(if $(V),,@)
PREFIX ?= /usr/local
CC ?= gcc
SETUP := build-deps/setup.stamp

# What needs no configuration must not ask for one.
UNCONFIGURED := help clean distclean uninstall
ifneq ($(filter-out $(UNCONFIGURED),$(or $(MAKECMDGOALS),all)),)
include $(BUILD)/config.mk
endif

CPPFLAGS := -I. -D_GNU_SOURCE
CFLAGS := -std=c11 -O2 -g -ffile-prefix-map=$(CURDIR)/= -fPIC -fvisibility=hidden -ftls-model=initial-exec -ffunction-sections -fdata-sections \
	-pthread -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
LDFLAGS := -pthread -Wl,--gc-sections -Wl,--as-needed
ifdef SANITIZE
# The tests gain less by -O2 than it takes to compile.
CFLAGS += -O1 -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=$(SANITIZE)
endif
# Only shim/ and tests see the vendor's headers.
VENDOR := $(addprefix -isystem ,$(CUDA_INCLUDE) $(NCCL_INCLUDE))

object = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
ANNOTATIONS := $(sort $(wildcard config/annotations/*.ini))
# core/tool is not of the library: it prints.
CORE := $(wildcard config/*.c core/*.c $(foreach f,rules trace record steps compare order agree plan replay,core/$(f)/*.c))
TOOL := $(wildcard core/tool/*.c)
SHIM := $(wildcard shim/*.c)
LIBRARY := $(BUILD)/libreprise.so
COMMAND := $(BUILD)/reprise
ARCHIVE := $(BUILD)/reprise.a
FAKE := $(addprefix $(BUILD)/fake/,libcudart.so.13 libnccl.so.2 libcuda.so.1)
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
TSAN := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/tsan_*.c))

.PHONY: all help programs test unit preload-tests demo bench lint asan tsan tsan-run install uninstall options clean \
	distclean
.DELETE_ON_ERROR:
.SECONDARY:

all: $(LIBRARY) $(COMMAND)

help:
	@echo 'all (default)   build/libreprise.so and build/reprise'
	@echo 'test            every unit and preload test; needs no GPU'
	@echo 'unit            only the unit tests'
	@echo 'preload-tests   only the tests of the library and the command line'
	@echo 'demo            record and replay small sharded runs and look at them; needs no GPU'
	@echo 'explore         every interleaving of ranks through the agreement'
	@echo 'chaos           N=1000 SEED=1 MODE=replay: random programs behind the library'
	@echo 'fuzz            TARGET=trace SECONDS=600: libFuzzer on a reader or the planner (options, plan, rules, trace); needs clang'
	@echo 'bench           measure on this machine'
	@echo 'lint            formatting, static analysis, layers, exports, documents'
	@echo 'asan, tsan      the tests under the address and undefined-behaviour, or the thread sanitizer'
	@echo 'install         into $$(DESTDIR)$$(PREFIX), default /usr/local; uninstall removes it'
	@echo 'options         the table of REPRISE_* variables, as Markdown'
	@echo 'clean           remove outputs; distclean also removes build-deps'

# The machine -------------------------------------------------------------------------------------------------------
$(SETUP): scripts/setup.sh
	@scripts/setup.sh

$(BUILD)/config.mk: scripts/configure.sh $(SETUP)
	@mkdir -p $(@D)
	@scripts/configure.sh > $@.new
	@mv $@.new $@

# Objects -----------------------------------------------------------------------------------------------------------
# -MMD writes each object's headers beside it, so a changed header rebuilds what includes it.
$(BUILD)/obj/shim/%.o: CPPFLAGS += $(VENDOR) $(UNWIND_CPPFLAGS)
$(BUILD)/obj/tests/%.o: CPPFLAGS += $(VENDOR)
# Hooks have the vendor's declarations, which carry no visibility: the version script alone says what is exported.
$(BUILD)/obj/shim/hook_%.o: CFLAGS += -fvisibility=default
$(BUILD)/obj/%.o: %.c $(BUILD)/config.mk
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# The kernels are data in the library: nothing of it needs a CUDA runtime when it is loaded.
$(BUILD)/kernels.fatbin: shim/kernels.cu shim/kernels_pack.cuh shim/compare.h shim/pack.h core/plan/pack.h shim/fingerprint.h $(BUILD)/config.mk
	@echo '  NVCC  $<'
	$(Q)$(NVCC) -fatbin $(NVCC_TARGETS) -I. $< -o $@

$(BUILD)/obj/shim/kernels_image.o: CPPFLAGS += -DRP_KERNELS_FATBIN='"$(BUILD)/kernels.fatbin"'
$(BUILD)/obj/shim/kernels_image.o: $(BUILD)/kernels.fatbin

# The shipped annotation files are texts in the library.
$(BUILD)/annotations.c: scripts/embed_annotations.sh $(ANNOTATIONS) $(BUILD)/config.mk
	$(Q)scripts/embed_annotations.sh $(ANNOTATIONS) > $@

$(BUILD)/obj/annotations.o: $(BUILD)/annotations.c
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# The library and the command ---------------------------------------------------------------------------------------
# Rows of symbols.def depend on the versions of the vendor's headers, so the list is made by the preprocessor.
$(BUILD)/exports.map: shim/symbols.def scripts/exports.sh $(BUILD)/config.mk
	$(Q)$(CC) -E -P -x c $(CPPFLAGS) $(VENDOR) -imacros cuda_runtime_api.h -imacros nccl.h $< | scripts/exports.sh > $@

$(LIBRARY): $(BUILD)/exports.map $(call object,$(CORE) $(SHIM)) $(BUILD)/obj/annotations.o
	@echo '  LINK  $@'
	$(Q)$(CC) -shared $(LDFLAGS) -static-libgcc -Wl,-z,now,-z,relro,-z,text,-z,defs,-z,noexecstack,-z,nodelete -Wl,--exclude-libs,ALL \
		-Wl,--version-script=$< -Wl,-soname,$(@F) $(filter %.o,$^) $(UNWIND_LIBS) $(INIH_LIBS) -o $@

$(COMMAND): $(call object,$(CORE) $(TOOL)) $(BUILD)/obj/annotations.o
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ $(INIH_LIBS) $(DEMANGLE_LIBS) -o $@

$(ARCHIVE): $(call object,$(CORE) $(TOOL)) $(BUILD)/obj/annotations.o
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

# Tests -------------------------------------------------------------------------------------------------------------
# A test links with core/, core/tool/ and config/. A line of its source asks for more:
#   /* link: fake */             the stand-in CUDA and NCCL (also for every test_fake_*)
#   /* link: shim: a.c b*.c */   these sources of shim/
link_fake = $(shell grep -ls '^/\* link: fake \*/' $(1))$(findstring /test_fake_,$(1))
link_shim = $(wildcard $(addprefix shim/,$(shell sed -n 's|^/\* link: shim: \(.*\) \*/.*|\1|p' $(1))))

define test_rule
$(BUILD)/tests/$(1): $(BUILD)/obj/tests/unit/$(1).o $(call object,$(call link_shim,tests/unit/$(1).c)) $(ARCHIVE) \
		$(if $(call link_fake,tests/unit/$(1).c),$(FAKE))
endef
$(foreach t,$(notdir $(TESTS) $(TSAN)),$(eval $(call test_rule,$(t))))

$(TESTS) $(TSAN):
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../fake' $^ \
		$(if $(filter %/site_native.o,$^),$(UNWIND_LIBS)) $(INIH_LIBS) $(DEMANGLE_LIBS) -lcmocka -o $@

# The stand-in, the example programs and the benchmarks say themselves how they are built; they add what the tests need
# to PROGRAMS.
include $(wildcard tests/*/*.mk)

# Under a sanitizer the library needs the sanitizer's runtime first, so it is no guest in programs of others.
# Those that take long come first, so that at the end no processor is without work.
PRELOAD_TESTS := $(filter-out $(if $(SANITIZE),tests/preload/robust.bats),$(wildcard tests/chaos/*.bats tests/preload/*.bats))

programs: all $(TESTS) $(FAKE) $(PROGRAMS)

test: programs
	@BUILD=$(BUILD) scripts/run_tests.sh $(PRELOAD_TESTS) $(TESTS)

unit: $(TESTS)
	@BUILD=$(BUILD) scripts/run_tests.sh $(TESTS)

preload-tests: programs
	@BUILD=$(BUILD) scripts/run_tests.sh $(PRELOAD_TESTS)

asan:
	@$(MAKE) BUILD=build-asan SANITIZE=address,undefined test

tsan:
	@$(MAKE) BUILD=build-tsan SANITIZE=thread tsan-run

tsan-run: $(TSAN)
	@BUILD=$(BUILD) scripts/run_tests.sh $(TSAN)

LINT_FLAGS = $(CPPFLAGS) $(VENDOR) $(UNWIND_CPPFLAGS) -DRP_KERNELS_FATBIN="" $(filter -std% -W%,$(CFLAGS))

lint: programs
	@BUILD=$(BUILD) LINT_FLAGS='$(LINT_FLAGS)' scripts/lint.sh

demo: programs
	@BUILD=$(BUILD) scripts/demo.sh

bench: programs $(BENCH)
	@BUILD=$(BUILD) scripts/bench_launch.sh
	@$(BUILD)/bench/bench_plan
	@$(BUILD)/bench/bench_diff $(BUILD)
	@BUILD=$(BUILD) tests/bench/bench_export.sh
	@if [ -e /dev/nvidia0 ]; then BUILD=$(BUILD) scripts/bench_gpu.sh; else echo 'no GPU here: not measured on one'; fi

# Installing --------------------------------------------------------------------------------------------------------
# reprise finds the library beside itself: ../lib/libreprise.so.
DOCUMENTS := $(wildcard README.md LICENSE NOTICE)

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/share/doc/reprise
	install -m 755 $(COMMAND) $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(LIBRARY) $(DESTDIR)$(PREFIX)/lib/
	install -m 644 $(DOCUMENTS) $(DESTDIR)$(PREFIX)/share/doc/reprise/

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/reprise $(DESTDIR)$(PREFIX)/lib/libreprise.so
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/reprise

options: $(COMMAND)
	@$(COMMAND) help --markdown

clean:
	rm -rf build build-asan build-tsan build-fuzz

distclean: clean
	rm -rf build-deps
