# mktrace writes the traces that the tests of the command line read.
PROGRAMS += $(BUILD)/tests/mktrace

$(BUILD)/tests/mktrace: $(BUILD)/obj/tests/unit/mktrace.o $(ARCHIVE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@

# Our prototypes against those of the compiler's own generated code: it has only to compile.
PROGRAMS += $(BUILD)/obj/tests/unit/cuda_private_check.o

$(BUILD)/obj/tests/unit/cuda_private_check.o: tests/unit/cuda_private_check.cu shim/cuda_private.h $(BUILD)/config.mk
	@mkdir -p $(@D)
	@echo '  NVCC  $<'
	$(Q)$(NVCC) -c -I. $< -o $@
