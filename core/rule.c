/*
 * The built-in rules and how they match. Pure functions over a constant table; any thread.
 */
#include "core/rule.h"

#include <fnmatch.h>
#include <string.h>

#define FSDP2_MODULE "self._module_fqn"

/*
 * The name of an FSDP1 unit: the name of its first parameter from the root, less its name inside the unit. The root
 * keeps the first in a dictionary: by original parameter with use_orig_params=True, else by flat parameter.
 */
#define FSDP1_NAMES "state._exec_order_data.param_to_fqn"
#define FSDP1_MODULE                                                                            \
    FSDP1_NAMES "[handle.flat_param._params[0]][0] - handle.flat_param._fqns[0] | " FSDP1_NAMES \
                "[handle.flat_param][0] - handle.flat_param._fqns[0]"

#define NATIVE(pattern, module, phase)                                      \
    {                                                                       \
        RP_RULE_NATIVE, pattern, module, RP_PHASE_##phase, RP_PHASE_UNKNOWN \
    }
#define PYTHON(pattern, module, phase)                                      \
    {                                                                       \
        RP_RULE_PYTHON, pattern, module, RP_PHASE_##phase, RP_PHASE_UNKNOWN \
    }
#define PYTHON_FORWARD(pattern, module)                                       \
    {                                                                         \
        RP_RULE_PYTHON, pattern, module, RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE \
    }
#define NVTX(pattern)                                                     \
    {                                                                     \
        RP_RULE_NVTX, pattern, NULL, RP_PHASE_UNKNOWN, RP_PHASE_RECOMPUTE \
    }

static const struct rp_rule rules[] = {
    /*
     * torch::autograd, exported by libtorch_cpu.so and never inlined into others (2.4 to 2.11). A CUDA device's
     * backward runs on a thread of its own under Engine::thread_main; final callbacks run under GraphTask.
     */
    NATIVE("_ZN5torch8autograd6Engine*", NULL, BACKWARD),
    NATIVE("_ZN5torch8autograd9GraphTask*", NULL, BACKWARD),

    /*
     * FSDP2 (torch 2.4 to 2.11, _fsdp_param_group.py and _fsdp_state.py). Gathers are issued in unshard, below what
     * says the phase. _pre_forward and pre_forward inside a backward are a checkpointed region run again; where
     * pre_backward has gathered already, such a region gathers nothing.
     */
    PYTHON_FORWARD("FSDPParamGroup.pre_forward", FSDP2_MODULE),
    PYTHON("FSDPParamGroup.pre_backward", FSDP2_MODULE, BACKWARD),
    PYTHON("FSDPParamGroup._backward_prefetch", FSDP2_MODULE, BACKWARD),
    PYTHON("FSDPParamGroup.post_backward", FSDP2_MODULE, BACKWARD),
    PYTHON("FSDPParamGroup.finalize_backward", FSDP2_MODULE, BACKWARD),
    PYTHON("FSDPParamGroup.unshard", FSDP2_MODULE, UNKNOWN),
    PYTHON("FSDPParamGroup.*", FSDP2_MODULE, UNKNOWN),
    PYTHON_FORWARD("FSDPState._pre_forward", NULL),
    PYTHON("FSDPState._pre_backward", NULL, BACKWARD),
    PYTHON("FSDPState._root_post_backward_final_callback", NULL, BACKWARD),

    /* FSDP1 (torch 2.4 to 2.11, _runtime_utils.py): functions with the locals `state` and `handle`. */
    PYTHON("_unshard", FSDP1_MODULE, UNKNOWN),
    PYTHON("_reduce_grad", FSDP1_MODULE, BACKWARD),
    PYTHON("_reduce_grad_no_shard", FSDP1_MODULE, BACKWARD),
    PYTHON_FORWARD("_pre_forward_unshard", NULL),
    PYTHON("_pre_backward_hook", NULL, BACKWARD),
    PYTHON("_post_backward_hook", NULL, BACKWARD),

    /* Every torch.optim optimizer's step is called through this wrapper. */
    PYTHON("Optimizer.profile_hook_step.<locals>.wrapper", NULL, OPTIMIZER),

    /* Megatron-FSDP v2, and what we suggest to programs of one's own. */
    NVTX("MFSDP {module} {phase}"),
    NVTX("{phase} {module}"),
    NVTX("{phase}"),
};

#define RULE_COUNT (sizeof(rules) / sizeof(rules[0]))
#define MODULE_CAPTURE "{module}"
#define PHASE_CAPTURE "{phase}"

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Fills the captures of `match`; what they hold counts only if true comes back. */
static bool template_matches(const char *pattern, const char *text, struct rp_rule_match *match)
{
    for (; *pattern != '{'; pattern++, text++) {
        if (*pattern != *text)
            return false;
        if (*pattern == '\0')
            return true;
    }
    bool is_phase = starts_with(pattern, PHASE_CAPTURE);
    const char *rest = pattern + (is_phase ? strlen(PHASE_CAPTURE) : strlen(MODULE_CAPTURE));
    for (size_t length = 1; length <= strlen(text); length++) {
        enum rp_phase phase = is_phase ? rp_phase_from_name(text, length) : RP_PHASE_UNKNOWN;
        if (is_phase && phase == RP_PHASE_UNKNOWN)
            continue;
        if (!template_matches(rest, text + length, match))
            continue;
        if (is_phase) {
            match->phase = phase;
        } else {
            match->module = text;
            match->module_length = length;
        }
        return true;
    }
    return false;
}

static bool rule_matches(const struct rp_rule *rule, const char *text, struct rp_rule_match *match)
{
    if (rule->source != RP_RULE_NVTX)
        return fnmatch(rule->pattern, text, 0) == 0;
    return template_matches(rule->pattern, text, match);
}

bool rp_rule_match(enum rp_rule_source source, const char *text, struct rp_rule_match *match_out)
{
    struct rp_rule_match found = {0};
    bool any = false;
    for (size_t i = 0; i < RULE_COUNT; i++) {
        const struct rp_rule *rule = &rules[i];
        struct rp_rule_match one = {.phase = rule->phase};
        if (rule->source != source || !rule_matches(rule, text, &one))
            continue;
        any = true;
        if (found.module_rule == NULL && (rule->module != NULL || one.module != NULL)) {
            found.module_rule = rule;
            found.module = one.module;
            found.module_length = one.module_length;
        }
        if (found.phase_rule == NULL && one.phase != RP_PHASE_UNKNOWN) {
            found.phase_rule = rule;
            found.phase = one.phase;
        }
    }
    if (any)
        *match_out = found;
    return any;
}

bool rp_rule_python_method(const char *name)
{
    for (size_t i = 0; i < RULE_COUNT; i++) {
        const char *dot = strchr(rules[i].pattern, '.');
        if (rules[i].source == RP_RULE_PYTHON && dot != NULL && strcmp(dot + 1, name) == 0)
            return true;
    }
    return false;
}
