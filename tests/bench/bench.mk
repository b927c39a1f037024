# The benchmark of the launch hook: one program and a CUDA runtime whose launches do nothing. The benchmarks of the planner
# and of diff need neither.
BENCH := $(BUILD)/bench/bench_launch $(BUILD)/bench/bench_plan $(BUILD)/bench/bench_diff

$(BUILD)/bench/libcudart.so.13: $(BUILD)/obj/tests/bench/empty_cudart.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(@F) $^ -o $@

$(BUILD)/bench/bench_launch: $(BUILD)/obj/tests/bench/bench_launch.o $(BUILD)/bench/libcudart.so.13
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' $^ -o $@

$(BUILD)/bench/bench_plan: $(BUILD)/obj/tests/bench/bench_plan.o $(ARCHIVE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@

$(BUILD)/bench/bench_diff: $(BUILD)/obj/tests/bench/bench_diff.o
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@
