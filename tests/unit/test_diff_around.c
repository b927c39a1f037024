/* The neighbourhood of a difference, in traces that were read again to print it. */
#include "core/tool/diff_around.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/diff_world.h"

/* A file may be another one by then: nothing is read behind the end of its ops. */
static void a_trace_that_became_shorter(void **state)
{
    (void)state;
    struct rp_trace *left = make_run(0, STEPS, LAYERS), *right = make_run(0, STEPS, LAYERS);
    right->ops[at(3, 1)].op.count++;
    struct rp_diff diff = diff_traces(left, right);
    struct rp_diff_point point = diff.structure;
    assert_int_equal(point.right.index, at(3, 1));
    point.right.index = (size_t)1 << 40; /* so far behind the end that nothing can be there */
    struct packed_run left_run, right_run;
    right->op_count = 2;
    pack_run(left, &left_run);
    pack_run(right, &right_run);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    rp_diff_around_print(out, &point, &left_run.packed, &right_run.packed);
    fclose(out);
    assert_non_null(strstr(text, "  B> (no more ops here)"));
    free(text);
    unpack_run(&left_run);
    unpack_run(&right_run);
    rp_trace_free(left);
    rp_trace_free(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_that_became_shorter),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_diff();
    return failed;
}
