# Fuzzing. In `make test`: every target over its corpus, by the compiler at hand, without libFuzzer. By hand:
#   make fuzz TARGET=trace SECONDS=600    clang's libFuzzer with the address and undefined-behaviour sanitizers
#   make fuzz-keep TARGET=trace           what that found anew, as far as it reaches new code, into the kept corpus
FUZZ_TARGETS := options plan rules trace
CORPUS_TESTS := $(FUZZ_TARGETS:%=$(BUILD)/tests/corpus_%)
TESTS += $(CORPUS_TESTS)

fuzz_objects = $(call object,tests/fuzz/fuzz_$(1).c) $(if $(filter trace,$(1)),$(call object,tests/fuzz/trace_file.c))

define fuzz_rule
$(BUILD)/tests/corpus_$(1): $(call fuzz_objects,$(1)) $(call object,tests/fuzz/corpus.c) $(ARCHIVE)
$(BUILD)/fuzz/$(1): $(call fuzz_objects,$(1)) $(if $(filter trace,$(1)),$(call object,tests/fuzz/mutate_trace.c)) $(ARCHIVE)
endef
$(foreach t,$(FUZZ_TARGETS),$(eval $(call fuzz_rule,$(t))))

$(CORPUS_TESTS):
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ $(INIH_LIBS) $(DEMANGLE_LIBS) -o $@

$(FUZZ_TARGETS:%=$(BUILD)/fuzz/%):
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(INIH_LIBS) $(DEMANGLE_LIBS) -o $@

.PHONY: fuzz fuzz-keep fuzz-program fuzz-has-library
TARGET ?= trace
SECONDS ?= 600
FUZZ_CORPUS := tests/fuzz/corpus/$(TARGET)
FUZZ_FOUND := build-fuzz/found/$(TARGET)
FUZZ_OPTIONS := -max_len=8192 -timeout=20 -rss_limit_mb=3000 -print_final_stats=1

fuzz-has-library:
	@echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n > 1 && 0; }' | \
		clang -x c -fsanitize=fuzzer - -o /dev/null 2> /dev/null || { echo 'fuzz: clang has no libFuzzer here'; exit 1; }

fuzz-program: fuzz-has-library
	@$(MAKE) BUILD=build-fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined build-fuzz/fuzz/$(TARGET)

# What it finds lies in build-fuzz/: inputs that reach something new in found/TARGET, those that fail in failed-TARGET-*.
fuzz: fuzz-program
	@mkdir -p $(FUZZ_FOUND)
	nice build-fuzz/fuzz/$(TARGET) $(FUZZ_OPTIONS) -artifact_prefix=build-fuzz/failed-$(TARGET)- \
		-max_total_time=$(SECONDS) $(FUZZ_FOUND) $(FUZZ_CORPUS)

fuzz-keep: fuzz-program
	build-fuzz/fuzz/$(TARGET) $(FUZZ_OPTIONS) -use_counters=0 -set_cover_merge=1 $(FUZZ_CORPUS) $(FUZZ_FOUND)
