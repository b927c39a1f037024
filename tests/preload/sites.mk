# A library with the sites alone, for programs to ask, and one that exports a name of PyTorch's autograd engine.
SITE_PROBE := $(BUILD)/tests/libsite_probe.so
SITE_ENGINE := $(BUILD)/tests/libsite_engine.so
PROGRAMS += $(SITE_PROBE) $(SITE_ENGINE)

$(SITE_PROBE): $(call object,tests/preload/site_probe.c $(wildcard shim/site*.c) $(addprefix core/,event.c log.c rule.c))
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) -Wl,-z,defs -Wl,--exclude-libs,ALL $^ $(UNWIND_LIBS) -o $@

$(SITE_ENGINE): $(call object,tests/preload/site_engine.c)
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) $^ -o $@

$(BUILD)/tests/test_site_native: | $(SITE_ENGINE)
