/* link: fake */
/* link: shim: fingerprints.c gpu.c kernels_image.c */
/*
 * Fingerprints taken on the device against the host's own computation. Runs on the stand-in runtime, and on a real
 * device with the vendor's libraries in LD_LIBRARY_PATH.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "shim/fingerprint.h"
#include "shim/fingerprints.h"
#include "shim/gpu.h"

#define LARGEST (8u << 20)

static unsigned char *host;
static void *device;
static cudaStream_t stream;
static struct rp_fingerprints *prints;

static void ok(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static int group_setup(void **state)
{
    (void)state;
    host = malloc(LARGEST);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < LARGEST; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        host[i] = (unsigned char)x;
    }
    ok(cudaMalloc(&device, LARGEST));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    enum rp_status status = rp_fingerprints_acquire(0, &prints);
    if (status != RP_OK)
        fail_msg("%s", rp_gpu_error());
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    rp_fingerprints_release(prints);
    ok(cudaStreamDestroy(stream));
    ok(cudaFree(device));
    free(host);
    return 0;
}

static void take(size_t offset, size_t bytes, uint64_t value[2])
{
    uint64_t serial;
    assert_true(rp_fingerprints_take(prints, stream, (char *)device + offset, bytes, &serial));
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(rp_fingerprints_read(prints, serial, value), RP_FINGERPRINT_READY);
}

static void check(size_t offset, size_t bytes)
{
    uint64_t on_device[2], on_host[2];
    take(offset, bytes, on_device);
    rp_fingerprint_host(host + offset, bytes, 0, on_host);
    assert_int_equal(on_device[0], on_host[0]);
    assert_int_equal(on_device[1], on_host[1]);
}

static void test_sizes_and_alignments(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 31, 4096, 4099, 65536, 1000003, LARGEST - 64};
    static const size_t offsets[] = {0, 1, 2, 8, 16, 33};
    ok(cudaMemcpyAsync(device, host, LARGEST, cudaMemcpyHostToDevice, stream));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof offsets / sizeof offsets[0]; j++)
            check(offsets[j], sizes[i]);
}

static void test_every_bit_counts(void **state)
{
    (void)state;
    uint64_t before[2], after[2];
    ok(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream));
    take(0, 4096, before);
    for (unsigned bit = 0; bit < 8; bit++)
        for (size_t at = 0; at < 4096; at += 1023) {
            host[at] ^= (unsigned char)(1u << bit);
            ok(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream));
            take(0, 4096, after);
            host[at] ^= (unsigned char)(1u << bit);
            assert_memory_not_equal(before, after, sizeof before);
        }
}

/* Equal words in other places, or a length that only adds zeros, are other bytes. */
static void test_place_and_length_count(void **state)
{
    (void)state;
    uint64_t a[2], b[2];
    ok(cudaMemsetAsync(device, 0, 256, stream));
    take(0, 64, a);
    take(0, 80, b);
    assert_memory_not_equal(a, b, sizeof a);
    ok(cudaMemsetAsync(device, 1, 16, stream));
    take(0, 64, a);
    ok(cudaMemsetAsync(device, 0, 64, stream));
    ok(cudaMemsetAsync((char *)device + 16, 1, 16, stream));
    take(0, 64, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* Many under way on two streams at once: each entry has sums of its own. */
static void test_many_under_way(void **state)
{
    (void)state;
    cudaStream_t second;
    uint64_t expected[2], value[2];
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    ok(cudaMemcpyAsync(device, host, LARGEST, cudaMemcpyHostToDevice, stream));
    ok(cudaStreamSynchronize(stream));
    uint64_t serials[600];
    for (uint64_t i = 0; i < 600; i++)
        assert_true(
            rp_fingerprints_take(prints, i % 2 ? second : stream, (char *)device + i * 64, 5000 + i, &serials[i]));
    ok(cudaStreamSynchronize(stream));
    ok(cudaStreamSynchronize(second));
    for (uint64_t i = 0; i < 600; i++) {
        assert_int_equal(rp_fingerprints_read(prints, serials[i], value), RP_FINGERPRINT_READY);
        rp_fingerprint_host(host + i * 64, 5000 + i, 0, expected);
        assert_memory_equal(value, expected, sizeof value);
    }
    ok(cudaStreamDestroy(second));
}

static void test_entries_are_used_again(void **state)
{
    (void)state;
    uint64_t value[2], first, serial;
    assert_true(rp_fingerprints_take(prints, stream, device, 16, &first));
    assert_int_equal(rp_fingerprints_read(prints, first + 5, value), RP_FINGERPRINT_PENDING);
    for (uint64_t i = 0; i < RP_FINGERPRINTS; i++)
        assert_true(rp_fingerprints_take(prints, stream, device, 16, &serial));
    assert_int_equal(serial, first + RP_FINGERPRINTS);
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(rp_fingerprints_read(prints, first, value), RP_FINGERPRINT_LOST);
    assert_int_equal(rp_fingerprints_read(prints, first + 1, value), RP_FINGERPRINT_READY);
    assert_int_equal(rp_fingerprints_read(prints, first + RP_FINGERPRINTS, value), RP_FINGERPRINT_READY);
    assert_int_equal(rp_fingerprints_read(prints, first + RP_FINGERPRINTS + 1, value), RP_FINGERPRINT_PENDING);
}

/* A later communicator gets the same memory and takes no old value for its own. */
static void test_memory_is_handed_on(void **state)
{
    (void)state;
    struct rp_fingerprints *again = NULL;
    uint64_t before, after, value[2];
    assert_true(rp_fingerprints_take(prints, stream, device, 16, &before));
    rp_fingerprints_release(prints);
    assert_int_equal(rp_fingerprints_acquire(0, &again), RP_OK);
    assert_ptr_equal(again, prints);
    assert_true(rp_fingerprints_take(prints, stream, device, 16, &after));
    assert_int_equal(after, before + 1);
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(rp_fingerprints_read(again, before, value), RP_FINGERPRINT_READY);
    assert_int_equal(rp_fingerprints_read(again, after, value), RP_FINGERPRINT_READY);
}

static void test_captured_streams_are_seen(void **state)
{
    (void)state;
    cudaGraph_t graph;
    assert_false(rp_gpu_capturing(stream));
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_true(rp_gpu_capturing(stream));
    ok(cudaStreamEndCapture(stream, &graph));
    assert_false(rp_gpu_capturing(stream));
    ok(cudaGraphDestroy(graph));
}

static void test_no_such_device(void **state)
{
    (void)state;
    struct rp_fingerprints *none = NULL;
    assert_int_equal(rp_fingerprints_acquire(1000, &none), RP_UNSUPPORTED);
    assert_null(none);
    assert_non_null(strstr(rp_gpu_error(), "device"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_alignments),      cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_place_and_length_count),    cmocka_unit_test(test_many_under_way),
        cmocka_unit_test(test_entries_are_used_again),    cmocka_unit_test(test_memory_is_handed_on),
        cmocka_unit_test(test_captured_streams_are_seen), cmocka_unit_test(test_no_such_device),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
