# Random programs on the stand-in, behind the library: chaos is one rank, chaos_run runs many programs.
#
#     make chaos N=10000 SEED=1 MODE=replay
CHAOS := $(addprefix $(BUILD)/,chaos chaos_run)
CHAOS_PLAN := $(addprefix tests/chaos/chaos_,content.c fault.c program.c schedule.c steps.c)
CHAOS_RUN := $(addprefix tests/chaos/chaos_,guise.c options.c report.c run.c)
CHAOS_RANK := $(filter-out $(CHAOS_PLAN) $(CHAOS_RUN),$(wildcard tests/chaos/*.c))
PROGRAMS += $(CHAOS)
N ?= 1000
SEED ?= 1
MODE ?= replay

$(BUILD)/chaos: $(call object,$(CHAOS_PLAN) $(CHAOS_RANK)) $(BUILD)/fake/libcudart.so.13 $(BUILD)/fake/libnccl.so.2
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/fake' $^ -o $@

$(BUILD)/chaos_run: $(call object,$(CHAOS_PLAN) $(CHAOS_RUN))
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@

.PHONY: chaos
chaos: all $(CHAOS) $(FAKE)
	@$(BUILD)/chaos_run --programs $(N) --seed $(SEED) --mode $(MODE)
