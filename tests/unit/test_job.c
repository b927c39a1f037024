/* link: shim: job.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "shim/job.h"

static const char *const variables[] = {"RANK",
                                        "WORLD_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_MCA_ess_base_jobid",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_NAMESPACE",
                                        "FLUX_JOB_ID",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    return 0;
}

static void check(int rank, int nranks)
{
    struct rp_job job = rp_job_read();
    assert_int_equal(job.rank, rank);
    assert_int_equal(job.nranks, nranks);
}

static void test_no_launcher(void **state)
{
    (void)state;
    check(-1, 0);
}

static void test_each_launcher(void **state)
{
    static const char *const pairs[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < 4; i++) {
        clear(state);
        setenv(pairs[i][0], "3", 1);
        check(3, 0);
        setenv(pairs[i][1], "8", 1);
        check(3, 8);
    }
}

static void test_torchrun_inside_slurm(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "1", 1);
    setenv("RANK", "5", 1);
    setenv("WORLD_SIZE", "8", 1);
    check(5, 8);
}

static void test_malformed_is_ignored(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "-1", "one", "3x", " 3", "99999999999999999999", "3000000000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("RANK", bad[i], 1);
        check(-1, 0);
    }
    setenv("PMI_RANK", "1", 1);
    check(1, 0);
    setenv("PMI_SIZE", "1", 1); /* a rank can't be as large as the number of ranks */
    check(1, 0);
}

static void test_key_is_the_communicators(void **state)
{
    (void)state;
    char key[160];
    rp_job_key(0x12ab, 2, key, sizeof key);
    assert_string_equal(key, "comm=00000000000012ab");
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    rp_job_key(0x12ab, 2, key, sizeof key); /* it holds the whole job */
    assert_string_equal(key, "comm=00000000000012ab");
}

static void test_key_of_a_part_is_the_launchers(void **state)
{
    (void)state;
    char key[160];
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("TORCHELASTIC_RUN_ID", "none", 1); /* the launcher's default: no id */
    rp_job_key(0x12ab, 2, key, sizeof key);
    assert_string_equal(key, "comm=00000000000012ab");
    setenv("TORCHELASTIC_RUN_ID", "a-b-c", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    rp_job_key(0x12ab, 2, key, sizeof key);
    assert_string_equal(key, "TORCHELASTIC_RUN_ID=a-b-c step= restart=2");
    char cut[8];
    rp_job_key(0x12ab, 2, cut, sizeof cut);
    assert_string_equal(cut, "TORCHEL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_launcher, clear),
        cmocka_unit_test_setup(test_each_launcher, clear),
        cmocka_unit_test_setup(test_torchrun_inside_slurm, clear),
        cmocka_unit_test_setup(test_malformed_is_ignored, clear),
        cmocka_unit_test_setup(test_key_is_the_communicators, clear),
        cmocka_unit_test_setup(test_key_of_a_part_is_the_launchers, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
