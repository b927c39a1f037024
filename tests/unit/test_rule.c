/* The built-in annotation rules: which texts of a site they match, and what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/rule.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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
        assert_true(rp_rule_match(RP_RULE_NVTX, cases[i].text, &match));
        assert_int_equal(match.phase, cases[i].phase);
        assert_non_null(match.phase_rule);
        assert_int_equal(match.phase_rule->forward_in_backward, RP_PHASE_RECOMPUTE);
        if (cases[i].module == NULL) {
            assert_null(match.module_rule);
            continue;
        }
        assert_non_null(match.module_rule);
        assert_int_equal(match.module_length, strlen(cases[i].module));
        assert_memory_equal(match.module, cases[i].module, match.module_length);
        assert_in_range((uintptr_t)match.module, (uintptr_t)cases[i].text,
                        (uintptr_t)cases[i].text + strlen(cases[i].text));
    }
}

static void other_ranges_match_nothing(void **state)
{
    static const char *const texts[] = {"",          "-",           "- layers.3",       "forwards",
                                        "forward ",  " forward",    "layers.3 forward", "MFSDP  forward",
                                        "MFSDP a b", "aten::linear"};
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct rp_rule_match match = {.phase = RP_PHASE_OTHER, .module_length = 77};
        assert_false(rp_rule_match(RP_RULE_NVTX, texts[i], &match));
        assert_int_equal(match.phase, RP_PHASE_OTHER); /* untouched */
        assert_int_equal(match.module_length, 77);
    }
}

static void python_frames_give_paths_and_phases(void **state)
{
    static const struct {
        const char *frame;
        const char *module;
        enum rp_phase phase, in_backward;
    } cases[] = {
        {"FSDPParamGroup.unshard", "self._module_fqn", RP_PHASE_UNKNOWN, RP_PHASE_UNKNOWN},
        {"FSDPParamGroup.pre_forward", "self._module_fqn", RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE},
        {"FSDPParamGroup.pre_backward", "self._module_fqn", RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN},
        {"FSDPParamGroup._backward_prefetch", "self._module_fqn", RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN},
        {"FSDPParamGroup.post_backward", "self._module_fqn", RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN},
        {"FSDPParamGroup.a_method_to_come", "self._module_fqn", RP_PHASE_UNKNOWN, RP_PHASE_UNKNOWN},
        {"FSDPState._pre_forward", NULL, RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE},
        {"FSDPState._root_post_backward_final_callback", NULL, RP_PHASE_BACKWARD, RP_PHASE_UNKNOWN},
        {"_pre_forward_unshard", NULL, RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE},
        {"Optimizer.profile_hook_step.<locals>.wrapper", NULL, RP_PHASE_OPTIMIZER, RP_PHASE_UNKNOWN},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_rule_match match;
        assert_true(rp_rule_match(RP_RULE_PYTHON, cases[i].frame, &match));
        assert_int_equal(match.phase, cases[i].phase);
        assert_int_equal(match.module_rule != NULL, cases[i].module != NULL);
        if (cases[i].module != NULL)
            assert_string_equal(match.module_rule->module, cases[i].module);
        assert_int_equal(match.phase_rule != NULL, cases[i].phase != RP_PHASE_UNKNOWN);
        if (match.phase_rule != NULL)
            assert_int_equal(match.phase_rule->forward_in_backward, cases[i].in_backward);
        assert_null(match.module);
    }
}

static void sources_do_not_mix(void **state)
{
    struct rp_rule_match match;
    (void)state;
    assert_false(rp_rule_match(RP_RULE_PYTHON, "forward layers.3", &match));
    assert_false(rp_rule_match(RP_RULE_PYTHON, "Module._call_impl", &match));
    assert_false(rp_rule_match(RP_RULE_NVTX, "FSDPParamGroup.unshard", &match));
    assert_false(rp_rule_match(RP_RULE_NATIVE, "FSDPParamGroup.unshard", &match));
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
        assert_true(rp_rule_match(RP_RULE_NATIVE, symbols[i], &match));
        assert_int_equal(match.phase, RP_PHASE_BACKWARD);
        assert_null(match.module_rule);
    }
    assert_false(rp_rule_match(RP_RULE_NATIVE, "_ZN5torch8autograd4Node4nameEv", &match));
}

static void methods_are_those_spelled_out(void **state)
{
    (void)state;
    assert_true(rp_rule_python_method("unshard"));
    assert_true(rp_rule_python_method("_pre_forward"));
    assert_false(rp_rule_python_method("wrapper"));      /* of a pattern with more than a class before it */
    assert_false(rp_rule_python_method("_reduce_grad")); /* no method */
    assert_false(rp_rule_python_method("main"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_give_module_and_phase),        cmocka_unit_test(other_ranges_match_nothing),
        cmocka_unit_test(python_frames_give_paths_and_phases), cmocka_unit_test(sources_do_not_mix),
        cmocka_unit_test(engine_symbols_are_backward),         cmocka_unit_test(methods_are_those_spelled_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
