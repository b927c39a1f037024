/* The shipped annotation rules: which texts of a site they match, and what they say; and which of several counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/rules/rule.h"
#include "tests/unit/rules_world.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FSDP "/lib/torch/distributed/fsdp/_runtime_utils.py"

static struct rp_rules *rules; /* the shipped ones */

static void the_shipped_files_have_no_fault(void **state)
{
    struct rules_world world = rules_world_make(NULL);
    (void)state;
    assert_string_equal(world.said, "");
    for (const struct rp_rules_text *shipped = rp_rules_shipped; shipped->file != NULL; shipped++)
        assert_non_null(strstr(shipped->file, ".ini"));
    for (size_t i = 0; i < rp_rules_count(world.rules); i++)
        assert_true(rp_rules_at(world.rules, i)->shipped);
    rp_rules_destroy(world.rules);
}

struct nvtx_case {
    const char *text;
    const char *module; /* NULL: none */
    enum rp_phase phase;
};

static void ranges_give_module_and_phase(void **state)
{
    static const struct nvtx_case cases[] = {
        {"forward layers.3", "layers.3", RP_PHASE_FORWARD},
        {"backward layers.3", "layers.3", RP_PHASE_BACKWARD},
        {"recompute a b", "a b", RP_PHASE_RECOMPUTE},
        {"optimizer", NULL, RP_PHASE_OPTIMIZER},
        {"MFSDP decoder.layers.0 backward", "decoder.layers.0", RP_PHASE_BACKWARD},
        {"MFSDP forward forward", "forward", RP_PHASE_FORWARD},
        {"MFSDP a backward b forward", "a backward b", RP_PHASE_FORWARD},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_rule_match match;
        assert_true(rp_rules_match(rules, RP_RULE_NVTX, cases[i].text, "", &match));
        assert_int_equal(match.phase, cases[i].phase);
        assert_non_null(match.phase_rule);
        assert_int_equal(match.phase_rule->in_backward, RP_PHASE_RECOMPUTE);
        if (cases[i].module == NULL) {
            assert_null(match.module_rule);
            continue;
        }
        char module[64];
        assert_non_null(match.module_rule);
        assert_int_equal(rp_rule_module_text(&match, module, sizeof(module)), strlen(cases[i].module));
        assert_string_equal(module, cases[i].module);
    }
}

static void other_ranges_match_nothing(void **state)
{
    static const char *const texts[] = {"",          "-",           "- layers.3",       "forwards",
                                        "forward ",  " forward",    "layers.3 forward", "MFSDP  forward",
                                        "MFSDP a b", "aten::linear"};
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct rp_rule_match match = {.phase = RP_PHASE_OTHER};
        assert_false(rp_rules_match(rules, RP_RULE_NVTX, texts[i], "", &match));
        assert_int_equal(match.phase, RP_PHASE_OTHER); /* untouched */
    }
}

#define UNIT                                                                                               \
    "state._exec_order_data.param_to_fqn[handle.flat_param._params[0]][0] - handle.flat_param._fqns[0] | " \
    "state._exec_order_data.param_to_fqn[handle.flat_param][0] - handle.flat_param._fqns[0]"

static void python_frames_give_paths_and_phases(void **state)
{
    static const struct {
        const char *frame;
        const char *module;
        enum rp_phase phase, in_backward;
        bool calls_only;
    } cases[] = {
        {"FSDPParamGroup.unshard", "self._module_fqn", RP_PHASE_UNKNOWN, RP_PHASE_UNKNOWN, true},
        {"FSDPParamGroup.pre_forward", "self._module_fqn", RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE, false},
        {"FSDPParamGroup.pre_backward", "self._module_fqn", RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN, false},
        {"FSDPParamGroup._backward_prefetch", "self._module_fqn", RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN, false},
        {"FSDPParamGroup.post_backward", "self._module_fqn", RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN, false},
        {"FSDPParamGroup.a_method_to_come", "self._module_fqn", RP_PHASE_UNKNOWN, RP_PHASE_UNKNOWN, false},
        {"FSDPState._pre_forward", "self._fsdp_param_group._module_fqn", RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE, false},
        {"FSDPState._root_post_backward_final_callback", NULL, RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN, false},
        {"_unshard", UNIT, RP_PHASE_UNKNOWN, RP_PHASE_UNKNOWN, true},
        {"_pre_forward_unshard", UNIT, RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE, false},
        {"Optimizer.profile_hook_step.<locals>.wrapper", NULL, RP_PHASE_OPTIMIZER, RP_PHASE_UNKNOWN, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_rule_match match;
        assert_true(rp_rules_match(rules, RP_RULE_PYTHON, cases[i].frame, FSDP, &match));
        assert_int_equal(match.phase, cases[i].phase);
        assert_int_equal(match.module_rule != NULL, cases[i].module != NULL);
        if (cases[i].module != NULL)
            assert_string_equal(match.module_rule->module, cases[i].module);
        if (cases[i].module != NULL)
            assert_int_equal(match.module_rule->module_kind, RP_RULE_SAYS_PATH);
        assert_int_equal(match.module_rule != NULL && match.module_rule->calls_only, cases[i].calls_only);
        assert_int_equal(match.phase_rule != NULL, cases[i].phase != RP_PHASE_UNKNOWN);
        if (match.phase_rule != NULL)
            assert_int_equal(match.phase_rule->in_backward, cases[i].in_backward);
    }
}

static void sources_do_not_mix(void **state)
{
    struct rp_rule_match match;
    (void)state;
    assert_false(rp_rules_match(rules, RP_RULE_PYTHON, "forward layers.3", FSDP, &match));
    assert_false(rp_rules_match(rules, RP_RULE_PYTHON, "Module._call_impl", FSDP, &match));
    assert_false(rp_rules_match(rules, RP_RULE_NVTX, "FSDPParamGroup.unshard", "", &match));
    assert_false(rp_rules_match(rules, RP_RULE_NATIVE, "FSDPParamGroup.unshard", "", &match));
}

/* FSDP1's functions have names that others may have too. */
static void a_file_is_asked_for(void **state)
{
    static const char *const functions[] = {"_unshard", "_reduce_grad", "_pre_backward_hook"};
    struct rp_rule_match match;
    (void)state;
    for (size_t i = 0; i < COUNT(functions); i++) {
        assert_true(rp_rules_match(rules, RP_RULE_PYTHON, functions[i], FSDP, &match));
        assert_false(rp_rules_match(rules, RP_RULE_PYTHON, functions[i], "/home/me/train.py", &match));
        assert_false(rp_rules_match(rules, RP_RULE_PYTHON, functions[i], NULL, &match));
    }
}

static void engine_symbols_are_backward(void **state)
{
    static const char *const symbols[] = {
        "_ZN5torch8autograd6Engine11thread_mainERKSt10shared_ptrINS0_9GraphTaskEE",
        "_ZN5torch8autograd9GraphTask20exec_post_processingEv",
    };
    struct rp_rule_match match;
    (void)state;
    for (size_t i = 0; i < COUNT(symbols); i++) {
        assert_true(rp_rules_match(rules, RP_RULE_NATIVE, symbols[i], "/lib/libtorch_cpu.so", &match));
        assert_int_equal(match.phase, RP_PHASE_BACKWARD);
        assert_null(match.module_rule);
    }
    assert_false(rp_rules_match(rules, RP_RULE_NATIVE, "_ZN5torch8autograd4Node4nameEv", "", &match));
}

static void kernels_of_torch_optimizers_are_told(void **state)
{
    static const char *const kernels[] = {
        "_ZN2at6native52_GLOBAL__N__c815dac0_19_fused_adamw_impl_cu_8b44fa2325multi_tensor_apply_kernel"
        "INS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_9ADAM_MODEE1ELb0EEE",
        "_ZN2at6native54_GLOBAL__N__f8a10d72_21_ForeachPointwiseOp_cu_ef478fac25multi_tensor_apply_kernel"
        "INS1_28TensorListScalarListMetadataIfLi3EEENS1_28PointwiseOpScalarListFunctorIfLi3ELi3ELi0EEE",
        "_ZN2at6native52_GLOBAL__N__4671fab5_19_ForeachTernaryOp_cu_5285c63625multi_tensor_apply_kernel"
        "INS1_18TensorListMetadataILi2EEENS1_22TernaryOpScalarFunctorIfLi2ELi2ELi0EEE",
    };
    struct rp_rule_match match;
    (void)state;
    for (size_t i = 0; i < COUNT(kernels); i++) {
        assert_true(rp_rules_match(rules, RP_RULE_KERNEL, kernels[i], "", &match));
        assert_int_equal(match.phase, RP_PHASE_OPTIMIZER);
        assert_null(match.module_rule);
    }
    /* what FSDP2 copies its shards with */
    assert_false(rp_rules_match(rules, RP_RULE_KERNEL,
                                "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_"
                                "apply_kernelINS1_18TensorListMetadataILi2EEENS1_11CopyFunctorI",
                                "", &match));
}

static void methods_are_those_spelled_out(void **state)
{
    (void)state;
    assert_true(rp_rules_have_method(rules, "unshard"));
    assert_true(rp_rules_have_method(rules, "_pre_forward"));
    assert_false(rp_rules_have_method(rules, "wrapper"));      /* of a pattern with more than a class before it */
    assert_false(rp_rules_have_method(rules, "_reduce_grad")); /* no method */
    assert_false(rp_rules_have_method(rules, "main"));
}

static void later_rules_override(void **state)
{
    struct rules_world world = rules_world_make("[general]\n"
                                                "python = Model.*\n"
                                                "module = \"model\"\n"
                                                "phase = forward\n"
                                                "step = yes\n"
                                                "[phase alone]\n"
                                                "python = Model.back*\n"
                                                "phase = backward\n"
                                                "[module alone]\n"
                                                "python = *.backward{n}\n"
                                                "module = \"{n}.{n}\"\n");
    struct rp_rule_match match;
    char module[64];
    (void)state;
    assert_true(rp_rules_match(world.rules, RP_RULE_PYTHON, "Model.backward12", "f.py", &match));
    assert_string_equal(match.phase_rule->name, "phase alone");
    assert_int_equal(match.phase, RP_PHASE_BACKWARD);
    assert_string_equal(match.module_rule->name, "module alone");
    assert_string_equal(match.step_rule->name, "general");
    assert_int_equal(rp_rule_module_text(&match, module, sizeof(module)), strlen("12.12"));
    assert_string_equal(module, "12.12");
    assert_int_equal(rp_rule_module_text(&match, module, 4), 3); /* cut */
    assert_string_equal(module, "12.");
    assert_true(rp_rules_match(world.rules, RP_RULE_PYTHON, "Model.step", NULL, &match));
    assert_string_equal(match.module_rule->name, "general");
    assert_string_equal(match.phase_rule->name, "general");
    assert_true(rp_rules_have_steps(world.rules, RP_RULE_PYTHON));
    assert_false(rp_rules_have_steps(world.rules, RP_RULE_NVTX));
    assert_false(rp_rules_have_nested(world.rules, RP_RULE_PYTHON));
    rp_rules_destroy(world.rules);
}

static void what_matched_is_known(void **state)
{
    struct rules_world world = rules_world_make("[a]\nnvtx = a*\nphase = other\n[b]\nnvtx = b*\nphase = other\n");
    struct rp_rule_match match;
    (void)state;
    assert_false(rp_rules_at(world.rules, 1)->matched);
    assert_true(rp_rules_match(world.rules, RP_RULE_NVTX, "bee", "", &match));
    assert_false(rp_rules_at(world.rules, 0)->matched);
    assert_true(rp_rules_at(world.rules, 1)->matched);
    rp_rules_destroy(world.rules);
}

static int read_shipped(void **state)
{
    (void)state;
    rules = rules_world_make(NULL).rules;
    return 0;
}

static int forget(void **state)
{
    (void)state;
    rp_rules_destroy(rules);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_files_have_no_fault),
        cmocka_unit_test(ranges_give_module_and_phase),
        cmocka_unit_test(other_ranges_match_nothing),
        cmocka_unit_test(python_frames_give_paths_and_phases),
        cmocka_unit_test(sources_do_not_mix),
        cmocka_unit_test(a_file_is_asked_for),
        cmocka_unit_test(engine_symbols_are_backward),
        cmocka_unit_test(kernels_of_torch_optimizers_are_told),
        cmocka_unit_test(methods_are_those_spelled_out),
        cmocka_unit_test(later_rules_override),
        cmocka_unit_test(what_matched_is_known),
    };
    return cmocka_run_group_tests(tests, read_shipped, forget);
}
