# The stand-in runtime, into $(BUILD)/fake: the vendor's three libraries over one engine. See README.md.

FAKE_OBJECTS = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/fake/$(1)_*.c))
# The sanitizers' runtime is in the program.
FAKE_DEFS := $(if $(SANITIZE),,-Wl,-z,defs)

.PHONY: fake
fake: $(FAKE)

# The vendor's declarations carry no visibility: the version scripts say what is exported.
$(BUILD)/obj/tests/fake/%.o: CFLAGS += -fvisibility=default

$(BUILD)/fake/libfakedevice.so: tests/fake/engine.map $(call FAKE_OBJECTS,engine)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) -shared $(LDFLAGS) $(FAKE_DEFS) -Wl,-soname,$(@F) -Wl,--version-script=$< $(filter %.o,$^) -ldl -o $@

$(BUILD)/fake/libcudart.so.13: tests/fake/cudart.map $(call FAKE_OBJECTS,cudart)
$(BUILD)/fake/libnccl.so.2: tests/fake/nccl.map $(call FAKE_OBJECTS,nccl)
$(BUILD)/fake/libcuda.so.1: tests/fake/driver.map $(call FAKE_OBJECTS,driver)
# An entry that calls another one must not be seen by a tool that wraps both; ncclBcast is the one exception.
$(BUILD)/fake/libcudart.so.13 $(BUILD)/fake/libcuda.so.1: FAKE_BIND := -Wl,-Bsymbolic-functions
$(FAKE): $(BUILD)/fake/libfakedevice.so tests/fake/fake.mk
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) -shared $(LDFLAGS) $(FAKE_DEFS) -Wl,-soname,$(@F) $(FAKE_BIND) -Wl,-rpath,'$$ORIGIN' \
		-Wl,--version-script=$(filter %.map,$^) $(filter %.o,$^) $(BUILD)/fake/libfakedevice.so -lm -ldl -o $@

# Host twins of kernels are found by name in the program.
$(BUILD)/tests/test_fake_%: LDFLAGS += -rdynamic -Wl,--gc-keep-exported
