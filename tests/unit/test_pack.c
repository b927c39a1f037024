/* link: fake */
/* link: shim: slots*.c */
/* link: shim: gpu.c kernels_image.c */
/*
 * Packed slots: what is stored is served to the last bit, one flipped bit is unlike, what has no packed form is
 * nobody's. Runs on the stand-in runtime, and on a real device with the vendor's libraries in LD_LIBRARY_PATH.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "shim/pack.h"
#include "shim/slots_private.h"

#define LARGEST (16u << 20)
#define GUARD 64u

static uint16_t *unit; /* what is gathered */
static unsigned char *seen;
static unsigned char *gathered, *received, *shard; /* device memory, LARGEST bytes each */
static cudaStream_t stream;
static uint64_t state = 88172645463325252u;

static void ok(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Half of them near 1/64, each next exponent half as often: as weights are. */
static uint16_t weight(void)
{
    uint64_t bits = draw();
    unsigned exponent = 121 - (unsigned)__builtin_ctzll((bits >> 16) | UINT64_C(1) << 40);
    return (uint16_t)((bits & 0x8000u) | exponent << 7 | (bits & 0x7fu));
}

static uint16_t any_bits(void)
{
    return (uint16_t)draw();
}

static uint16_t zero(void)
{
    return 0;
}

/* Weights, and now and then what is none. */
static uint16_t odd_ones(void)
{
    static const uint16_t others[] = {0, 0x8000, 1, 0x007f, 0x7f80, 0xff80, 0x7fc1, 0x7f81, 0x0080, 0x4f00};
    uint64_t roll = draw();
    return roll % 1500 == 0 ? others[roll / 1500 % 10] : weight();
}

static int group_setup(void **unused)
{
    (void)unused;
    setenv("FAKE_MEMORY_MB", "512", 1);
    unit = malloc(LARGEST);
    seen = malloc(LARGEST);
    ok(cudaMalloc((void **)&gathered, LARGEST));
    ok(cudaMalloc((void **)&received, LARGEST));
    ok(cudaMalloc((void **)&shard, LARGEST));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return 0;
}

static int group_teardown(void **unused)
{
    (void)unused;
    ok(cudaStreamDestroy(stream));
    ok(cudaFree(gathered));
    ok(cudaFree(received));
    ok(cudaFree(shard));
    free(unit);
    free(seen);
    return 0;
}

struct world {
    uint32_t nranks, rank;
    uint64_t elements; /* of a part */
    size_t offset;     /* bytes of the buffers from an aligned address */
    bool in_place;
    struct rp_slots *slots;
};

static uint64_t part_bytes(const struct world *world)
{
    return world->elements * 2;
}

static void upload(void *to, const void *from, size_t bytes)
{
    ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
    ok(cudaStreamSynchronize(stream));
}

/* A set with one slot just large enough, and the unit in it. */
static bool begin(struct world *world, uint16_t (*next)(void), uint64_t serial)
{
    uint64_t bytes = rp_pack_unit(part_bytes(world), world->nranks);
    for (uint64_t i = 0; i < world->elements * world->nranks; i++)
        unit[i] = next();
    if (rp_slots_create(0, world->nranks, world->rank, &world->slots) != RP_OK ||
        rp_slots_resize(world->slots, &bytes, 1) != RP_OK)
        fail_msg("%s", rp_gpu_error());
    upload(gathered + world->offset, unit, part_bytes(world) * world->nranks);
    return rp_slots_store_packed(world->slots, 0, stream, gathered + world->offset, part_bytes(world), serial);
}

static enum rp_compare serve(const struct world *world, const void *own, uint64_t expected)
{
    unsigned char *to = received + GUARD + world->offset;
    uint64_t total = part_bytes(world) * world->nranks, at = part_bytes(world) * world->rank, ticket;
    unsigned char *send = world->in_place ? to + at : shard + world->offset;
    ok(cudaMemsetAsync(received, 0x5a, total + 2 * (size_t)GUARD + world->offset, stream));
    upload(send, own, part_bytes(world));
    assert_true(rp_slots_serve(world->slots, 0, stream, send, to, part_bytes(world), expected, &ticket));
    ok(cudaMemcpyAsync(seen, to - GUARD, total + 2 * (size_t)GUARD, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(seen[i], 0x5a);
        assert_int_equal(seen[GUARD + total + i], 0x5a);
    }
    return rp_slots_compared(world->slots, ticket);
}

/* What the last serve delivered of the other ranks, and of this one what it sent. */
static void check_delivered(const struct world *world, const void *own)
{
    uint64_t total = part_bytes(world) * world->nranks, at = part_bytes(world) * world->rank;
    const unsigned char *all = (const unsigned char *)unit;
    assert_memory_equal(seen + GUARD, all, at);
    assert_memory_equal(seen + GUARD + at, own, part_bytes(world));
    assert_memory_equal(seen + GUARD + at + part_bytes(world), all + at + part_bytes(world),
                        total - at - part_bytes(world));
}

static void deliver(struct world world, uint16_t (*next)(void))
{
    const uint16_t *own = unit + world.elements * world.rank;
    assert_true(begin(&world, next, 7));
    assert_int_equal(serve(&world, own, 7), RP_COMPARE_EQUAL);
    check_delivered(&world, own);
    assert_int_equal(serve(&world, own, 8), RP_COMPARE_UNLIKE);
    assert_false(rp_slots_pack_failed(world.slots));
    rp_slots_destroy(world.slots);
}

static void test_every_bit_is_delivered(void **unused)
{
    (void)unused;
    static const uint64_t sizes[] = {1, 2, 7, 8, 9, 255, 256, 257, 4096, 100003, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t rank = 0; rank < 4; rank++) {
            deliver((struct world){4, rank, sizes[i], rank * 2, rank % 2 == 0, NULL}, weight);
            deliver((struct world){4, rank, sizes[i], 0, rank % 2 == 1, NULL}, odd_ones);
            deliver((struct world){2, rank % 2, sizes[i], 16, false, NULL}, zero);
        }
    deliver((struct world){1, 0, 4096, 0, false, NULL}, weight);
}

/* One bit of one element, of every kind of element. */
static void test_a_flipped_bit_is_unlike(void **unused)
{
    (void)unused;
    struct world world = {2, 1, 30011, 2, false, NULL};
    uint16_t *own = malloc(part_bytes(&world));
    assert_true(begin(&world, odd_ones, 3));
    memcpy(own, unit + world.elements, part_bytes(&world));
    unsigned weights = 0, others = 0;
    for (uint64_t i = 0; i < world.elements; i++) {
        unsigned exponent = own[i] >> 7 & 0xffu;
        bool is_weight = exponent > 90 && exponent < 122;
        if (is_weight && i % 701 != 0 && i != world.elements - 1)
            continue;
        weights += is_weight;
        others += !is_weight;
        for (unsigned bit = 0; bit < 16; bit++) {
            own[i] ^= (uint16_t)(1u << bit);
            upload(shard + world.offset, own, part_bytes(&world));
            assert_int_equal(serve(&world, own, 3), RP_COMPARE_UNLIKE);
            own[i] ^= (uint16_t)(1u << bit);
        }
    }
    assert_true(weights > 20 && others > 5);
    assert_int_equal(serve(&world, own, 3), RP_COMPARE_EQUAL);
    check_delivered(&world, own);
    free(own);
    rp_slots_destroy(world.slots);
}

/* All exponents alike often: no packed form. The slot is nobody's, until something fits again. */
static void test_what_can_not_be_packed(void **unused)
{
    (void)unused;
    struct world world = {2, 0, 100000, 0, false, NULL};
    assert_true(begin(&world, any_bits, 5));
    assert_int_equal(serve(&world, unit, 5), RP_COMPARE_UNLIKE);
    assert_int_equal(serve(&world, unit, RP_SERIAL_NONE - 1), RP_COMPARE_UNLIKE);
    assert_true(rp_slots_pack_failed(world.slots));
    for (uint64_t i = 0; i < world.elements * 2; i++)
        unit[i] = weight();
    upload(gathered, unit, part_bytes(&world) * 2);
    assert_true(rp_slots_store_packed(world.slots, 0, stream, gathered, part_bytes(&world), 6));
    assert_int_equal(serve(&world, unit, 6), RP_COMPARE_EQUAL);
    check_delivered(&world, unit);
    assert_true(rp_slots_pack_failed(world.slots)); /* it stays */
    rp_slots_destroy(world.slots);
    assert_true(begin(&world, weight, 1)); /* the same set, of another owner */
    assert_false(rp_slots_pack_failed(world.slots));
    rp_slots_destroy(world.slots);
}

/* As many exceptions as the list holds, and one more. */
static void test_a_full_list(void **unused)
{
    (void)unused;
    for (uint64_t more = 0; more < 2; more++) {
        struct world world = {2, 1, 5120, 0, false, NULL};
        uint64_t room = rp_pack_part_of(part_bytes(&world)).room;
        assert_true(begin(&world, weight, 1));
        for (uint64_t i = 0; i < world.elements * 2; i++)
            unit[i] = (uint16_t)(120u << 7 | i % 128);
        for (uint64_t i = 0; i < room + more; i++)
            unit[world.elements + i * 190] = (uint16_t)(3u << 7 | i);
        upload(gathered, unit, part_bytes(&world) * 2);
        assert_true(rp_slots_store_packed(world.slots, 0, stream, gathered, part_bytes(&world), 2));
        assert_int_equal(serve(&world, unit + world.elements, 2), more == 0 ? RP_COMPARE_EQUAL : RP_COMPARE_UNLIKE);
        if (more == 0)
            check_delivered(&world, unit + world.elements);
        assert_int_equal(rp_slots_pack_failed(world.slots), more);
        rp_slots_destroy(world.slots);
    }
}

static void test_what_is_refused(void **unused)
{
    (void)unused;
    struct world world = {2, 0, 4096, 0, false, NULL};
    uint64_t bytes = part_bytes(&world), ticket;
    assert_true(begin(&world, weight, 1));
    assert_false(rp_slots_store_packed(world.slots, 0, stream, gathered, bytes + (512u << 10), 2)); /* no room */
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, bytes, 1, &ticket));
    assert_false(rp_slots_store_packed(world.slots, 0, stream, gathered, bytes - 1, 2));
    assert_false(rp_slots_pack_failed(world.slots));
    assert_true(rp_slots_store_packed(world.slots, 0, stream, gathered, bytes, 3));
    assert_int_equal(serve(&world, unit, 3), RP_COMPARE_EQUAL);
    /* as it is, over what was packed, and back */
    assert_true(rp_slots_store(world.slots, 0, stream, gathered, bytes / 2, 4));
    assert_true(rp_slots_store_packed(world.slots, 0, stream, gathered, bytes, 5));
    assert_int_equal(serve(&world, unit, 5), RP_COMPARE_EQUAL);
    check_delivered(&world, unit);
    rp_slots_destroy(world.slots);
}

/* Each time anew, so that is told as what does not fit. */
static void test_an_odd_address(void **unused)
{
    (void)unused;
    static const size_t odd[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}; /* of what is stored, sent, received */
    for (size_t i = 0; i < 3; i++) {
        struct world world = {2, 0, 4096, 0, false, NULL};
        uint64_t bytes = part_bytes(&world), ticket;
        assert_true(begin(&world, weight, 1));
        bool stored = rp_slots_store_packed(world.slots, 0, stream, gathered + odd[i][0], bytes, 2);
        assert_int_equal(stored, odd[i][0] == 0);
        assert_int_equal(rp_slots_pack_failed(world.slots), !stored);
        assert_false(
            rp_slots_serve(world.slots, 0, stream, shard + odd[i][1], received + odd[i][2], bytes, 2, &ticket));
        assert_true(rp_slots_pack_failed(world.slots));
        ok(cudaStreamSynchronize(stream));
        rp_slots_destroy(world.slots);
    }
}

static void test_sizes(void **unused)
{
    (void)unused;
    assert_true(rp_pack_unit(0, 2) == UINT64_MAX);
    assert_true(rp_pack_unit(3, 2) == UINT64_MAX);
    assert_true(rp_pack_unit(UINT64_MAX - 1, 2) == UINT64_MAX);
    for (uint64_t bytes = 2; bytes < 6000; bytes += 2) {
        struct rp_pack_part part = rp_pack_part_of(bytes);
        assert_true(part.codes >= part.elements && part.bases >= part.codes + (part.elements + 1) / 2);
        assert_true(part.list >= part.bases + part.blocks && part.bytes >= part.list + part.room * 8);
        assert_true(part.codes % 16 == 0 && part.bases % 16 == 0 && part.list % 16 == 0 && part.bytes % 16 == 0);
    }
    assert_in_range(rp_pack_unit(UINT64_C(200) << 20, 2), UINT64_C(300) << 20, UINT64_C(306) << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bit_is_delivered),
        cmocka_unit_test(test_a_flipped_bit_is_unlike),
        cmocka_unit_test(test_what_can_not_be_packed),
        cmocka_unit_test(test_a_full_list),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_an_odd_address),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
