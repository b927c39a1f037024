# Programs behind the library, on the stand-in; and two vendors in small, each with a plugin (hooks_vendor.c).
HOOKS := $(addprefix $(BUILD)/tests/,libhooks_arrays.so hooks_all hooks_life hooks_two libhooks_plugin1.so libhooks_plugin2.so)
PROGRAMS += $(HOOKS)

$(BUILD)/obj/tests/preload/hooks_%.o: CFLAGS += -fvisibility=default

$(BUILD)/tests/libhooks_arrays.so: $(call object,tests/preload/hooks_arrays.c)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(@F) $^ -o $@

$(BUILD)/tests/hooks_all: $(call object,tests/preload/hooks_all.c) $(BUILD)/tests/libhooks_arrays.so $(FAKE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -rdynamic -Wl,--gc-keep-exported -Wl,-rpath,'$$ORIGIN' $^ -o $@

$(BUILD)/tests/hooks_life: $(call object,tests/preload/hooks_life.c) $(FAKE)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../fake' $^ -o $@

$(BUILD)/tests/hooks_two: $(call object,tests/preload/hooks_two.c)
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $^ -o $@

# vendor NUMBER, CUDA's version, NCCL's: different sonames, since the loader takes equal ones for one library.
define hooks_vendor
$(BUILD)/tests/vendor$(1)/libcudart.so.$(2): HOOKS_FLAGS := -DVENDOR_CUDART -DMARK=$(1)
$(BUILD)/tests/vendor$(1)/libnccl.so.$(3): HOOKS_FLAGS := -DMARK=$(1)
$(BUILD)/tests/vendor$(1)/libcudart.so.$(2) $(BUILD)/tests/vendor$(1)/libnccl.so.$(3): tests/preload/hooks_vendor.c
	@mkdir -p $$(@D)
	@echo '  LINK  $$@'
	$$(Q)$$(CC) -shared $$(CPPFLAGS) $$(VENDOR) $$(CFLAGS) -fvisibility=default $$(HOOKS_FLAGS) $$(LDFLAGS) \
		-Wl,-Bsymbolic -Wl,-soname,$$(@F) $$< -o $$@

$(BUILD)/tests/libhooks_plugin$(1).so: $(call object,tests/preload/hooks_plugin.c) \
		$(BUILD)/tests/vendor$(1)/libcudart.so.$(2) $(BUILD)/tests/vendor$(1)/libnccl.so.$(3)
	@echo '  LINK  $$@'
	$$(Q)$$(CC) -shared $$(LDFLAGS) -Wl,-rpath,'$$$$ORIGIN/vendor$(1)' $$^ -o $$@
endef
$(eval $(call hooks_vendor,1,12,2))
$(eval $(call hooks_vendor,2,13,3))
