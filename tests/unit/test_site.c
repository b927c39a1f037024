/* link: shim: site*.c */
/* How the findings of the sources become one event, and what site.h promises around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/site.h"
#include "shim/site_sources.h"
#include "tests/unit/site_world.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Short names for the tables below: a phase, and a forward that is recomputation inside backward. */
#define FINDING(number, said, backward)                                \
    {                                                                  \
        .module = (number), .phase = (said), .in_backward = (backward) \
    }
#define NOTHING FINDING(0, RP_PHASE_UNKNOWN, RP_PHASE_UNKNOWN)
#define SAYS(module, phase) FINDING(module, RP_PHASE_##phase, RP_PHASE_UNKNOWN)
#define FORWARD(module) FINDING(module, RP_PHASE_FORWARD, RP_PHASE_RECOMPUTE)

static const struct {
    struct rp_site_said python, nvtx, native;
    uint32_t module;
    enum rp_phase phase;
} cases[] = {
    {NOTHING, NOTHING, NOTHING, 0, RP_PHASE_UNKNOWN},
    {FORWARD(1), NOTHING, NOTHING, 1, RP_PHASE_FORWARD},
    {FORWARD(1), FORWARD(2), SAYS(3, OTHER), 1, RP_PHASE_FORWARD},
    {NOTHING, FORWARD(2), SAYS(3, OTHER), 2, RP_PHASE_FORWARD},
    {NOTHING, NOTHING, SAYS(3, OTHER), 3, RP_PHASE_OTHER},
    /* module and phase may come from two sources */
    {SAYS(1, UNKNOWN), SAYS(0, OPTIMIZER), NOTHING, 1, RP_PHASE_OPTIMIZER},
    {SAYS(0, OPTIMIZER), FORWARD(2), NOTHING, 2, RP_PHASE_OPTIMIZER},
    /* under a native backward */
    {NOTHING, NOTHING, SAYS(0, BACKWARD), 0, RP_PHASE_BACKWARD},
    {SAYS(1, BACKWARD), NOTHING, SAYS(0, BACKWARD), 1, RP_PHASE_BACKWARD},
    {SAYS(1, UNKNOWN), NOTHING, SAYS(0, BACKWARD), 1, RP_PHASE_BACKWARD},
    {FORWARD(1), NOTHING, SAYS(0, BACKWARD), 1, RP_PHASE_RECOMPUTE},
    {SAYS(1, FORWARD), NOTHING, SAYS(0, BACKWARD), 1, RP_PHASE_BACKWARD},
    {NOTHING, FORWARD(2), SAYS(0, BACKWARD), 2, RP_PHASE_RECOMPUTE},
    {NOTHING, SAYS(2, RECOMPUTE), SAYS(0, BACKWARD), 2, RP_PHASE_RECOMPUTE},
    {SAYS(1, BACKWARD), FORWARD(2), SAYS(0, BACKWARD), 1, RP_PHASE_BACKWARD},
    {SAYS(1, OPTIMIZER), NOTHING, SAYS(0, BACKWARD), 1, RP_PHASE_BACKWARD},
};

static void findings_make_one_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rp_event event = rp_site_combine(&cases[i].python, &cases[i].nvtx, &cases[i].native);
        if (event.module != cases[i].module || event.phase != cases[i].phase)
            fail_msg("case %zu: module %u, phase %s", i, event.module, rp_phase_name(event.phase));
    }
}

static void before_the_start_nothing_is_said(void **state)
{
    struct rp_event event = rp_site_here(NULL).call;
    (void)state;
    assert_int_equal(event.module, RP_MODULE_UNKNOWN);
    assert_int_equal(event.phase, RP_PHASE_UNKNOWN);
    assert_false(rp_site_on);
}

static void a_process_without_python_is_asked_and_keeps_errno(void **state)
{
    struct rp_site_tables tables = site_world_tables(NULL);
    (void)state;
    rp_site_start(&tables);
    assert_true(rp_site_on);
    for (int i = 0; i < 3; i++) {
        errno = EDOM;
        struct rp_event event = rp_site_here(__builtin_return_address(0)).call;
        assert_int_equal(errno, EDOM);
        assert_int_equal(event.module, RP_MODULE_UNKNOWN);
        assert_int_equal(event.phase, RP_PHASE_UNKNOWN);
    }
    assert_int_equal(rp_module_count(tables.modules), 1);
    rp_site_forked();
    assert_int_equal(rp_site_here(NULL).call.phase, RP_PHASE_UNKNOWN);
}

static void the_injection_is_announced_unless_there_is_one(void **state)
{
    (void)state;
    unsetenv("NVTX_INJECTION64_PATH");
    rp_site_nvtx_announce();
    const char *file = getenv("NVTX_INJECTION64_PATH");
    assert_non_null(file);
    assert_int_equal(file[0], '/');
    assert_int_equal(access(file, R_OK), 0);
    setenv("NVTX_INJECTION64_PATH", "another tool", 1);
    rp_site_nvtx_announce();
    assert_string_equal(getenv("NVTX_INJECTION64_PATH"), "another tool");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_make_one_event),
        cmocka_unit_test(before_the_start_nothing_is_said),
        cmocka_unit_test(a_process_without_python_is_asked_and_keeps_errno),
        cmocka_unit_test(the_injection_is_announced_unless_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
