# The explorer of core/agree: a test in small, `make explore` at large. It has agree.c in itself, small and hooked.
EXPLORER := $(BUILD)/tests/test_explore
TESTS += $(EXPLORER)

$(EXPLORER): $(call object,$(wildcard tests/explore/*.c))
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -lcmocka -o $@

.PHONY: explore
explore: $(EXPLORER)
	@$(EXPLORER) large
