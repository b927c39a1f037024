# A library with the sites alone, one that exports a name of PyTorch's autograd engine, and a program that asks.
SITE_PROBE := $(BUILD)/tests/libsite_probe.so
SITE_ENGINE := $(BUILD)/tests/libsite_engine.so
SITE_CLIENT := $(BUILD)/tests/site_client
PROGRAMS += $(SITE_PROBE) $(SITE_ENGINE) $(SITE_CLIENT)

$(SITE_PROBE): $(call object,tests/preload/site_probe.c shim/annotations.c $(wildcard shim/site*.c)) $(ARCHIVE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-z,defs -Wl,--exclude-libs,ALL $^ $(UNWIND_LIBS) $(INIH_LIBS) -o $@

$(SITE_ENGINE): $(call object,tests/preload/site_engine.c)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) -shared $(LDFLAGS) $^ -o $@

$(SITE_CLIENT): $(call object,tests/preload/site_client.c)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@

$(BUILD)/tests/test_site_native: | $(SITE_ENGINE)
