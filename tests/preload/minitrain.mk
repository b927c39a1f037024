# Preloaded, one holds the host inside every all-gather until that has been delivered, the other puts each gather and
# each reduction in a group of its own.
BESIDE := $(addprefix $(BUILD)/tests/libminitrain_,held.so grouped.so)
PROGRAMS += $(BESIDE)

$(BUILD)/obj/tests/preload/minitrain_%.o: CFLAGS += -fvisibility=default

$(BESIDE): $(BUILD)/tests/lib%.so: $(BUILD)/obj/tests/preload/%.o
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) -shared $(LDFLAGS) $^ -ldl -o $@
