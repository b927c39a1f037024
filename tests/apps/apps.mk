# minitrain: a sharded trainer on the shared CUDA runtime. It links with the toolkit's NCCL, or with the stand-in's
# where the toolkit has only the header, and finds both at run time by LD_LIBRARY_PATH. -rdynamic exports the host twins
# of its kernels.
MINITRAIN := $(BUILD)/minitrain
MINITRAIN_OBJECTS := $(call object,$(wildcard tests/apps/minitrain*.c)) $(BUILD)/obj/tests/apps/minitrain_kernels.o
MINITRAIN_NCCL := $(firstword $(wildcard $(CUDA_LIB)/libnccl.so) $(BUILD)/fake/libnccl.so.2)
PROGRAMS += $(MINITRAIN)

$(BUILD)/obj/tests/apps/minitrain_kernels.o: tests/apps/minitrain_kernels.cu tests/apps/minitrain_kernels.h \
		tests/apps/minitrain_host.h | $(BUILD)/config.mk
	@mkdir -p $(@D)
	@echo '  NVCC  $<'
	$(Q)$(NVCC) -std=c++17 -O2 -fmad=false -cudart shared $(NVCC_TARGETS) $(addprefix -isystem ,$(NCCL_INCLUDE)) \
		-Xcompiler -ffp-contract=off,-fno-exceptions,-Wall,-Wextra -c $< -o $@

$(MINITRAIN): $(MINITRAIN_OBJECTS) $(MINITRAIN_NCCL)
	@echo '  LINK  $@'
	$(Q)$(CC) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) -pthread -rdynamic $^ -L$(CUDA_LIB) -lcudart -lstdc++ -ldl -o $@
