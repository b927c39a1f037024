# The benchmark of the launch hook: one program and a CUDA runtime whose launches do nothing.
BENCH := $(BUILD)/bench/bench_launch

$(BUILD)/bench/libcudart.so.13: $(BUILD)/obj/tests/bench/empty_cudart.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(@F) $^ -o $@

$(BENCH): $(BUILD)/obj/tests/bench/bench_launch.o $(BUILD)/bench/libcudart.so.13
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' $^ -o $@
