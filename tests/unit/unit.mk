# mktrace writes the traces that the tests of the command line read.
PROGRAMS += $(BUILD)/tests/mktrace

$(BUILD)/tests/mktrace: $(BUILD)/obj/tests/unit/mktrace.o $(ARCHIVE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@
