# Programs that attack replay, on the stand-in: a trainer in small (replay_world.h) and what befalls it.
REPLAY_ATTACKS := $(addprefix $(BUILD)/tests/,replay_life replay_groups replay_data)
PROGRAMS += $(REPLAY_ATTACKS)

$(REPLAY_ATTACKS): $(BUILD)/tests/%: $(call object,tests/preload/%.c tests/preload/replay_world.c) $(FAKE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../fake' $^ -o $@
