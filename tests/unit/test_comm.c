/* link: fake */
/* link: shim: comm.c channel.c fingerprints.c gather.c gather_figures.c gather_ahead.c gather_life.c preset.c */
/* link: shim: child.c child_end.c child_watch.c gpu.c job.c kernels_image.c live.c waits.c */
/* link: shim: slots*.c */
/* link: shim: site*.c */
/*
 * Communicators of one rank on the stand-in: names and numbers while they live, and that what belongs to one that has
 * ended never serves two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "shim/comm.h"
#include "shim/real.h"
#include "shim/runtime.h"

_Thread_local struct rp_thread rp_thread __attribute__((tls_model("initial-exec")));

static const struct rp_nccl real = {
    .ncclCommCount = ncclCommCount, .ncclCommUserRank = ncclCommUserRank, .ncclCommCuDevice = ncclCommCuDevice};

/* Told by comm.c; of no interest here. */
void rp_run_announce(int comm_rank)
{
    (void)comm_rank;
}

static cudaStream_t stream;
static unsigned char *data;

static ncclComm_t comm_make(void)
{
    ncclUniqueId id;
    ncclComm_t handle;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclCommInitRank(&handle, 1, id, 0), ncclSuccess);
    struct rp_comm_birth birth = {.real = &real, .handle = &handle, .nranks = 1, .parent = RP_NO_COMM};
    rp_comm_born(&birth, ncclSuccess);
    assert_non_null(rp_comm_find(handle));
    return handle;
}

static bool take(struct rp_comm *comm, size_t offset, uint64_t position)
{
    return rp_comm_fingerprint_take(comm, stream, data + offset, 64, 1, position);
}

static void read_print(const struct rp_comm *comm, uint64_t position, uint64_t value_out[2])
{
    assert_int_equal(rp_comm_fingerprint_read(rp_comm_number(comm), position, value_out), RP_FINGERPRINT_READY);
}

static void test_ended_is_unknown(void **state)
{
    (void)state;
    ncclComm_t handle = comm_make();
    rp_comm_ended(handle, RP_STATE_COMM_FINALIZED);
    assert_non_null(rp_comm_find(handle));
    rp_comm_ended(handle, RP_STATE_COMM_ABORTED);
    assert_null(rp_comm_find(handle));
    rp_comm_ended(handle, RP_STATE_COMM_DESTROYED);
    assert_int_equal(ncclCommDestroy(handle), ncclSuccess);
}

/* An abort comes from another thread while an op is under way: the op's position comes after the end. */
static void test_an_op_that_outlives_its_communicator_has_no_print(void **state)
{
    (void)state;
    ncclComm_t first_handle = comm_make();
    struct rp_comm *first = rp_comm_find(first_handle);
    assert_true(take(first, 0, 0));
    assert_true(take(first, 64, 1));
    rp_comm_ended(first_handle, RP_STATE_COMM_ABORTED);
    assert_int_equal(ncclCommAbort(first_handle), ncclSuccess);

    ncclComm_t second_handle = comm_make();
    struct rp_comm *second = rp_comm_find(second_handle);
    assert_true(take(second, 128, 0));
    assert_false(take(first, 192, 2));
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    uint64_t old[2], fresh[2], again[2];
    read_print(first, 1, old);
    read_print(second, 0, fresh);
    assert_memory_not_equal(old, fresh, sizeof old);
    assert_true(take(second, 128, 1));
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    read_print(second, 1, again);
    assert_memory_equal(fresh, again, sizeof fresh);
    rp_comm_ended(second_handle, RP_STATE_COMM_DESTROYED);
    assert_int_equal(ncclCommDestroy(second_handle), ncclSuccess);
}

static _Atomic int arrived;

/* Both go within nanoseconds: a barrier that sleeps would let one through first. */
static void *end(void *handle)
{
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < 2)
        sched_yield();
    rp_comm_ended(handle, RP_STATE_COMM_ABORTED);
    return NULL;
}

/* The watchdog aborts what the main thread destroys; later ones must not share what that one had. */
static void test_ended_by_two_threads_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        atomic_store(&arrived, 0);
        ncclComm_t handle = comm_make(), later[2];
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, end, handle), 0);
        end(handle);
        pthread_join(thread, NULL);
        assert_int_equal(ncclCommDestroy(handle), ncclSuccess);

        uint64_t value[2][2];
        for (int k = 0; k < 2; k++) {
            later[k] = comm_make();
            assert_true(take(rp_comm_find(later[k]), (size_t)k * 64, 0));
        }
        assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
        for (int k = 0; k < 2; k++)
            read_print(rp_comm_find(later[k]), 0, value[k]);
        assert_memory_not_equal(value[0], value[1], sizeof value[0]);
        for (int k = 0; k < 2; k++) {
            rp_comm_ended(later[k], RP_STATE_COMM_DESTROYED);
            assert_int_equal(ncclCommDestroy(later[k]), ncclSuccess);
        }
    }
}

static void test_a_child_is_asked_for_its_size(void **state)
{
    (void)state;
    ncclComm_t parent = comm_make(), child;
    assert_int_equal(ncclCommSplit(parent, 0, 0, &child, NULL), ncclSuccess);
    struct rp_comm_birth birth = {.real = &real, .handle = &child, .origin = RP_COMM_SPLIT, .rank = -1};
    rp_comm_born(&birth, ncclInProgress);
    assert_int_equal(rp_comm_rank(rp_comm_find(child)), -1);
    rp_comm_async(child, ncclInProgress);
    assert_int_equal(rp_comm_rank(rp_comm_find(child)), -1);
    rp_comm_async(child, ncclSuccess);
    assert_int_equal(rp_comm_rank(rp_comm_find(child)), 0);
    ncclComm_t handles[] = {child, parent};
    for (int i = 0; i < 2; i++) {
        rp_comm_ended(handles[i], RP_STATE_COMM_DESTROYED);
        assert_int_equal(ncclCommDestroy(handles[i]), ncclSuccess);
    }
}

static void test_keys(void **state)
{
    (void)state;
    ncclUniqueId ids[2];
    memset(ids, 1, sizeof ids);
    assert_int_equal(rp_comm_key_init(ids, 1, 2), rp_comm_key_init(&ids[1], 1, 2));
    assert_int_not_equal(rp_comm_key_init(ids, 1, 2), rp_comm_key_init(ids, 2, 2));
    assert_int_not_equal(rp_comm_key_init(ids, 1, 2), rp_comm_key_init(ids, 1, 3));
    assert_int_not_equal(rp_comm_key_all(2), rp_comm_key_all(2));
    ncclComm_t handle = comm_make();
    struct rp_comm *parent = rp_comm_find(handle);
    const int one[] = {1, 2}, other[] = {2, 1};
    assert_int_not_equal(rp_comm_key_split(parent, 0), rp_comm_key_split(parent, 0));
    assert_int_not_equal(rp_comm_key_shrink(parent, one, 2), rp_comm_key_shrink(parent, other, 2));
    rp_comm_ended(handle, RP_STATE_COMM_DESTROYED);
    assert_int_equal(ncclCommDestroy(handle), ncclSuccess);
}

static int group_setup(void **state)
{
    (void)state;
    unsigned char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMalloc((void **)&data, sizeof bytes) != cudaSuccess)
        return -1;
    return cudaMemcpy(data, bytes, sizeof bytes, cudaMemcpyHostToDevice) == cudaSuccess ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    return cudaStreamDestroy(stream) == cudaSuccess && cudaFree(data) == cudaSuccess ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ended_is_unknown),
        cmocka_unit_test(test_an_op_that_outlives_its_communicator_has_no_print),
        cmocka_unit_test(test_ended_by_two_threads_at_once),
        cmocka_unit_test(test_a_child_is_asked_for_its_size),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
