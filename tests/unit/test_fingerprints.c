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
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/fingerprint.h"
#include "shim/fingerprints.h"
#include "shim/gpu.h"

#define MOST (8u << 20)
#define LARGEST (70u << 20) /* sampled by default */
#define PAGE RP_FINGERPRINT_PAGE

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

static void upload(size_t bytes)
{
    ok(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
}

static void take_sampled(size_t offset, size_t bytes, uint64_t every, uint64_t value[2])
{
    uint64_t serial;
    assert_true(rp_fingerprints_take(prints, stream, (char *)device + offset, bytes, every, &serial));
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(rp_fingerprints_read(prints, serial, value), RP_FINGERPRINT_READY);
}

static void take(size_t offset, size_t bytes, uint64_t value[2])
{
    take_sampled(offset, bytes, 1, value);
}

static void check(size_t offset, size_t bytes, uint64_t every)
{
    uint64_t on_device[2], on_host[2];
    take_sampled(offset, bytes, every, on_device);
    rp_fingerprint_host(host + offset, bytes, every, 0, on_host);
    assert_int_equal(on_device[0], on_host[0]);
    assert_int_equal(on_device[1], on_host[1]);
}

/* Traces of all versions of the library can be compared: the value of given bytes never changes. */
static void test_values_of_all_bytes(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        uint64_t salt, value[2];
    } known[] = {
        {0, 0, {0x0000000000000000u, 0x0000000000000000u}},     {1, 0, {0xa706dbdeca6d3339u, 0xadba0029485a1cf1u}},
        {16, 0, {0x55a8ec5e59be853du, 0x610def730913e2e2u}},    {4096, 0, {0x8c9c472e93e9e963u, 0x788698781a7cb133u}},
        {4097, 0, {0xd07c2b2756664101u, 0xe1a0dd60deda9787u}},  {65536, 0, {0xb389f18e2fe9db46u, 0x897e81ddcef1ab18u}},
        {99999, 7, {0xebbb9d78b1bca9e6u, 0xca175b8e868d4c76u}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t value[2];
        rp_fingerprint_host(host, known[i].bytes, 1, known[i].salt, value);
        assert_memory_equal(value, known[i].value, sizeof value);
    }
}

static void test_sizes_and_alignments(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 31, 4096, 4099, 65536, 1000003, MOST - 64};
    static const size_t offsets[] = {0, 1, 2, 8, 16, 33};
    upload(MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof offsets / sizeof offsets[0]; j++)
            check(offsets[j], sizes[i], 1);
}

/* ---------------------------------------------------------------- samples */

/* Around the borders of pages, of groups, and of what a block takes at once; the last page and group short or not. */
static void test_samples_of_sizes_and_alignments(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   15,
                                   17,
                                   PAGE - 1,
                                   PAGE,
                                   PAGE + 1,
                                   3 * PAGE,
                                   7 * PAGE,
                                   7 * PAGE - 1,
                                   7 * PAGE + 1,
                                   8 * PAGE,
                                   9 * PAGE,
                                   56 * PAGE,
                                   56 * PAGE + 7,
                                   57 * PAGE,
                                   64 * PAGE,
                                   64 * PAGE + 16,
                                   1000003,
                                   MOST - 64};
    static const uint64_t everies[] = {2, 3, 7, 8, 64, 100000};
    static const size_t offsets[] = {0, 1, 16, 33};
    upload(MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof everies / sizeof everies[0]; j++)
            for (size_t k = 0; k < sizeof offsets / sizeof offsets[0]; k++)
                check(offsets[k], sizes[i], everies[j]);
}

static void test_large_buffers(void **state)
{
    (void)state;
    uint64_t every = rp_fingerprint_sample_every(LARGEST - 64);
    assert_int_equal(every, 2);
    upload(LARGEST);
    check(0, LARGEST - 64, 1);
    check(0, LARGEST - 64, every);
    check(16, LARGEST - 80 + 5, every);
    check(33, LARGEST - 64, every);
}

static void test_a_copy_has_the_same_sample(void **state)
{
    (void)state;
    uint64_t here[2], there[2];
    for (uint64_t every = 1; every <= 5; every += 2)
        for (size_t shift = 1; shift <= 16; shift += 5) {
            ok(cudaMemcpyAsync(device, host, 1000003, cudaMemcpyHostToDevice, stream));
            ok(cudaMemcpyAsync((char *)device + (2u << 20) + shift, host, 1000003, cudaMemcpyHostToDevice, stream));
            take_sampled(0, 1000003, every, here);
            take_sampled((2u << 20) + shift, 1000003, every, there);
            assert_memory_equal(here, there, sizeof here);
        }
}

/* True if a change in that page changes the value. */
static bool is_read(size_t bytes, uint64_t every, uint64_t page, bool on_device)
{
    uint64_t before[2], after[2];
    size_t last = (page + 1) * PAGE < bytes ? (page + 1) * PAGE - 1 : bytes - 1, first = page * PAGE;
    unsigned read = 0;
    for (int end = 0; end < 2; end++) {
        size_t at = end ? last : first;
        if (on_device)
            take_sampled(0, bytes, every, before);
        else
            rp_fingerprint_host(host, bytes, every, 0, before);
        host[at] ^= 0x10;
        ok(cudaMemcpyAsync((char *)device + at, host + at, 1, cudaMemcpyHostToDevice, stream));
        if (on_device)
            take_sampled(0, bytes, every, after);
        else
            rp_fingerprint_host(host, bytes, every, 0, after);
        host[at] ^= 0x10;
        ok(cudaMemcpyAsync((char *)device + at, host + at, 1, cudaMemcpyHostToDevice, stream));
        read += memcmp(before, after, sizeof before) != 0;
    }
    assert_int_not_equal(read, 1); /* a page is read from its first byte to its last, or not at all */
    return read == 2;
}

static void check_pages(size_t bytes, uint64_t every, bool on_device)
{
    uint64_t pages = (bytes + PAGE - 1) / PAGE;
    upload(bytes);
    for (uint64_t group = 0; group * every < pages; group++) {
        unsigned read = 0;
        for (uint64_t page = group * every; page < (group + 1) * every && page < pages; page++)
            read += is_read(bytes, every, page, on_device);
        assert_int_equal(read, 1);
    }
}

static void test_one_page_of_each_group_is_read(void **state)
{
    (void)state;
    static const size_t sizes[] = {PAGE / 2 + 2, PAGE, PAGE + 2, 5 * PAGE, 12 * PAGE - 5, 12 * PAGE, 13 * PAGE + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint64_t every = 1; every <= 13; every++)
            check_pages(sizes[i], every, i % 2 == 0);
}

/* Rows that divide the groups would always show the same columns if the pages had a fixed place in them. */
static void test_places_in_groups_differ(void **state)
{
    (void)state;
    unsigned place[16] = {0};
    struct rp_fingerprint_pages pages = rp_fingerprint_pages_of(16u * 1600 * PAGE, 16);
    assert_int_equal(pages.groups, 1600);
    for (uint64_t group = 0; group < pages.groups; group++)
        place[rp_fingerprint_page(pages, group) - group * 16]++;
    for (int i = 0; i < 16; i++)
        assert_in_range(place[i], 60, 140);
}

/* Also where they have read the same bytes. */
static void test_how_much_is_read_is_in_the_value(void **state)
{
    (void)state;
    uint64_t value[4][2];
    for (uint64_t i = 0; i < 4; i++) {
        rp_fingerprint_host(host, PAGE, i + 1, 0, value[i]);
        for (uint64_t j = 0; j < i; j++)
            assert_memory_not_equal(value[i], value[j], sizeof value[0]);
    }
}

static void test_32_to_64_mib_are_read(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, every;
    } table[] = {{0, 1},
                 {1, 1},
                 {RP_FINGERPRINT_SAMPLE_BYTES, 1},
                 {RP_FINGERPRINT_SAMPLE_BYTES + 1, 2},
                 {2 * RP_FINGERPRINT_SAMPLE_BYTES, 2},
                 {2 * RP_FINGERPRINT_SAMPLE_BYTES + 1, 3},
                 {UINT64_C(1) << 37, 2048}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(rp_fingerprint_sample_every(table[i].bytes), table[i].every);
        uint64_t least = table[i].every == 1 ? table[i].bytes : RP_FINGERPRINT_SAMPLE_BYTES / 2;
        assert_in_range(rp_fingerprint_pages_of(table[i].bytes, table[i].every).groups * PAGE, least,
                        RP_FINGERPRINT_SAMPLE_BYTES + PAGE);
    }
}

static void test_what_is_asked_for(void **state)
{
    (void)state;
    uint64_t large = RP_FINGERPRINT_SAMPLE_BYTES + 1;
    assert_true(rp_fingerprints_configured());
    assert_int_equal(rp_fingerprints_every(large), 2);
    rp_fingerprints_configure(RP_FINGERPRINTING_FULL);
    assert_true(rp_fingerprints_configured());
    assert_int_equal(rp_fingerprints_every(large), 1);
    rp_fingerprints_configure(RP_FINGERPRINTING_OFF);
    assert_false(rp_fingerprints_configured());
    rp_fingerprints_configure(RP_FINGERPRINTING_SAMPLE);
    assert_int_equal(rp_fingerprints_every(large), 2);
    assert_int_equal(rp_fingerprints_every(large - 1), 1);
}

/* ---------------------------------------------------------------- what a value tells */

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

/* ---------------------------------------------------------------- many of them */

/* Many under way on two streams at once: each entry has sums of its own. */
static void test_many_under_way(void **state)
{
    (void)state;
    cudaStream_t second;
    uint64_t expected[2], value[2];
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    upload(MOST);
    ok(cudaStreamSynchronize(stream));
    uint64_t serials[600];
    for (uint64_t i = 0; i < 600; i++)
        assert_true(
            rp_fingerprints_take(prints, i % 2 ? second : stream, (char *)device + i * 64, 5000 + i, 1, &serials[i]));
    ok(cudaStreamSynchronize(stream));
    ok(cudaStreamSynchronize(second));
    for (uint64_t i = 0; i < 600; i++) {
        assert_int_equal(rp_fingerprints_read(prints, serials[i], value), RP_FINGERPRINT_READY);
        rp_fingerprint_host(host + i * 64, 5000 + i, 1, 0, expected);
        assert_memory_equal(value, expected, sizeof value);
    }
    ok(cudaStreamDestroy(second));
}

static void test_entries_are_used_again(void **state)
{
    (void)state;
    uint64_t value[2], first, serial;
    assert_true(rp_fingerprints_take(prints, stream, device, 16, 1, &first));
    assert_int_equal(rp_fingerprints_read(prints, first + 5, value), RP_FINGERPRINT_PENDING);
    for (uint64_t i = 0; i < RP_FINGERPRINTS; i++)
        assert_true(rp_fingerprints_take(prints, stream, device, 16, 1, &serial));
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
    assert_true(rp_fingerprints_take(prints, stream, device, 16, 1, &before));
    rp_fingerprints_release(prints);
    assert_int_equal(rp_fingerprints_acquire(0, &again), RP_OK);
    assert_ptr_equal(again, prints);
    assert_true(rp_fingerprints_take(prints, stream, device, 16, 1, &after));
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
        cmocka_unit_test(test_values_of_all_bytes),
        cmocka_unit_test(test_sizes_and_alignments),
        cmocka_unit_test(test_samples_of_sizes_and_alignments),
        cmocka_unit_test(test_large_buffers),
        cmocka_unit_test(test_a_copy_has_the_same_sample),
        cmocka_unit_test(test_one_page_of_each_group_is_read),
        cmocka_unit_test(test_places_in_groups_differ),
        cmocka_unit_test(test_how_much_is_read_is_in_the_value),
        cmocka_unit_test(test_32_to_64_mib_are_read),
        cmocka_unit_test(test_what_is_asked_for),
        cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_place_and_length_count),
        cmocka_unit_test(test_many_under_way),
        cmocka_unit_test(test_entries_are_used_again),
        cmocka_unit_test(test_memory_is_handed_on),
        cmocka_unit_test(test_captured_streams_are_seen),
        cmocka_unit_test(test_no_such_device),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
