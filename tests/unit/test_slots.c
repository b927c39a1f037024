/* link: fake */
/* link: shim: slots*.c */
/* link: shim: gpu.c kernels_image.c */
/*
 * Slots on a device: what is stored is served to the last bit, what differs is said to differ, memory comes and goes.
 * Runs on the stand-in runtime, and on a real device with the vendor's libraries in LD_LIBRARY_PATH.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/slots_private.h"
#include "tests/fake/gate.h"

#define LARGEST (16u << 20)
#define GUARD 64u /* bytes around a buffer that nothing may touch */
#define MIB ((uint64_t)1 << 20)

/* One gather on one rank: what is in device memory, and what the host expects there. */
struct world {
    uint32_t nranks, rank;
    struct rp_slots *slots;
    uint64_t bytes; /* of a part */
    size_t offset;  /* of the buffers from an aligned address */
    bool in_place;
};

static unsigned char *host, *seen;
static unsigned char *gathered, *received, *shard; /* device memory, LARGEST bytes each */
static cudaStream_t stream;

static void ok(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static int group_setup(void **state)
{
    (void)state;
    setenv("FAKE_MEMORY_MB", "512", 1);
    host = malloc(LARGEST);
    seen = malloc(LARGEST);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < LARGEST; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        host[i] = (unsigned char)x;
    }
    ok(cudaMalloc((void **)&gathered, LARGEST));
    ok(cudaMalloc((void **)&received, LARGEST));
    ok(cudaMalloc((void **)&shard, LARGEST));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    ok(cudaStreamDestroy(stream));
    ok(cudaFree(gathered));
    ok(cudaFree(received));
    ok(cudaFree(shard));
    free(host);
    free(seen);
    return 0;
}

static struct rp_slots *create(uint32_t nranks, uint32_t rank)
{
    struct rp_slots *slots = NULL;
    if (rp_slots_create(0, nranks, rank, &slots) != RP_OK)
        fail_msg("%s", rp_gpu_error());
    return slots;
}

static void resize(struct rp_slots *slots, const uint64_t *bytes, size_t count)
{
    if (rp_slots_resize(slots, bytes, count) != RP_OK)
        fail_msg("%s", rp_gpu_error());
}

static enum rp_compare compared(const struct rp_slots *slots, uint64_t ticket)
{
    ok(cudaStreamSynchronize(stream));
    return rp_slots_compared(slots, ticket);
}

/* `text` at `to` on the device, when it returns. */
static void upload(void *to, const void *text, size_t bytes)
{
    ok(cudaMemcpyAsync(to, text, bytes, cudaMemcpyHostToDevice, stream));
    ok(cudaStreamSynchronize(stream));
}

static uint64_t total(const struct world *world)
{
    return world->bytes * world->nranks;
}

/* The unit, as if gathered from host[0 ...), in slot 0. */
static void store_unit(const struct world *world, uint64_t serial)
{
    unsigned char *from = gathered + world->offset;
    upload(from, host, total(world));
    assert_true(rp_slots_store(world->slots, 0, stream, from, world->bytes, serial));
}

/*
 * Serves slot 0 into a buffer of other bytes with `own` as the live shard: the verdict. The buffer must then hold the
 * unit with `own` as the own part, and what is around it what it held.
 */
static enum rp_compare serve_unit(const struct world *world, const unsigned char *own, uint64_t expected)
{
    unsigned char *to = received + GUARD + world->offset;
    uint64_t at = world->bytes * world->rank, ticket;
    ok(cudaMemsetAsync(received, 0x5a, total(world) + 2 * (size_t)GUARD + world->offset, stream));
    unsigned char *send = world->in_place ? to + at : shard + world->offset;
    upload(send, own, world->bytes);
    assert_true(rp_slots_serve(world->slots, 0, stream, send, to, world->bytes, expected, &ticket));
    enum rp_compare verdict = compared(world->slots, ticket);
    ok(cudaMemcpyAsync(seen, to - GUARD, total(world) + 2 * (size_t)GUARD, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(seen[i], 0x5a);
        assert_int_equal(seen[GUARD + total(world) + i], 0x5a);
    }
    assert_memory_equal(seen + GUARD, host, at);
    assert_memory_equal(seen + GUARD + at, own, world->bytes);
    assert_memory_equal(seen + GUARD + at + world->bytes, host + at + world->bytes, total(world) - at - world->bytes);
    return verdict;
}

static void deliver(struct world *world)
{
    uint64_t bytes = total(world);
    world->slots = create(world->nranks, world->rank);
    resize(world->slots, &bytes, 1);
    store_unit(world, 7);
    assert_int_equal(serve_unit(world, host + world->bytes * world->rank, 7), RP_COMPARE_EQUAL);
    rp_slots_destroy(world->slots);
}

static void test_all_other_parts_are_delivered(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 15, 16, 17, 4096, 4099, 65536, 1000003};
    static const size_t offsets[] = {0, 1, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof offsets / sizeof offsets[0]; j++)
            for (uint32_t rank = 0; rank < 4; rank++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    deliver(&(struct world){4, rank, NULL, sizes[i], offsets[j], in_place});
                    if (rank < 2)
                        deliver(&(struct world){2, rank, NULL, sizes[i], offsets[j], in_place});
                }
    deliver(&(struct world){1, 0, NULL, 4096, 0, false});
}

/* A unit of two chunks: what lies across their border is compared (rank 1) and copied (rank 0). */
static void across_chunks(uint32_t rank)
{
    enum { AROUND = 1000 };
    const uint64_t bytes = 80 * MIB, border = 64 * MIB;
    unsigned char *unit, *out;
    uint64_t ticket;
    struct rp_slots *slots = create(2, rank);
    resize(slots, &bytes, 1);
    assert_int_equal(rp_slots_held(0), bytes);
    ok(cudaMalloc((void **)&unit, bytes));
    ok(cudaMalloc((void **)&out, bytes));
    ok(cudaMemsetAsync(unit, 3, bytes, stream));
    ok(cudaMemsetAsync(out, 4, bytes, stream));
    upload(unit + border - AROUND, host, 2 * (size_t)AROUND);
    assert_true(rp_slots_store(slots, 0, stream, unit, bytes / 2, 1));
    assert_true(rp_slots_serve(slots, 0, stream, unit + rank * bytes / 2, out, bytes / 2, 1, &ticket));
    assert_int_equal(compared(slots, ticket), RP_COMPARE_EQUAL);
    ok(cudaMemcpyAsync(seen, out + border - AROUND, 2 * (size_t)AROUND, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    assert_memory_equal(seen, host, 2 * (size_t)AROUND);
    ok(cudaMemsetAsync(unit + border + 5, host[AROUND + 5] ^ 1, 1, stream));
    assert_true(rp_slots_serve(slots, 0, stream, unit + rank * bytes / 2, out, bytes / 2, 1, &ticket));
    assert_int_equal(compared(slots, ticket), rank == 1 ? RP_COMPARE_UNLIKE : RP_COMPARE_EQUAL);
    ok(cudaFree(unit));
    ok(cudaFree(out));
    rp_slots_destroy(slots);
    assert_int_equal(rp_slots_held(0), 0);
}

static void test_a_slot_of_several_chunks(void **state)
{
    (void)state;
    across_chunks(0);
    across_chunks(1);
}

/* One flipped bit of the shard, wherever it is and however the buffers lie, against the host's own comparison. */
static void check_flips(struct world *world)
{
    uint64_t bytes = total(world), step = world->bytes / 61 + 1;
    unsigned char *own = malloc(world->bytes);
    world->slots = create(world->nranks, world->rank);
    resize(world->slots, &bytes, 1);
    store_unit(world, 5);
    memcpy(own, host + world->bytes * world->rank, world->bytes);
    for (uint64_t at = 0, bit = 0; at < world->bytes; bit++) {
        own[at] ^= (unsigned char)(1u << bit % 8);
        assert_false(rp_compare_host(own, host + world->bytes * world->rank, world->bytes, 5, 5));
        assert_int_equal(serve_unit(world, own, 5), RP_COMPARE_UNLIKE);
        own[at] ^= (unsigned char)(1u << bit % 8);
        /* the last byte too */
        at = at + step < world->bytes || at == world->bytes - 1 ? at + step : world->bytes - 1;
    }
    assert_true(rp_compare_host(own, host + world->bytes * world->rank, world->bytes, 5, 5));
    assert_int_equal(serve_unit(world, own, 5), RP_COMPARE_EQUAL);
    free(own);
    rp_slots_destroy(world->slots);
}

static void test_a_flipped_bit_is_unlike(void **state)
{
    (void)state;
    check_flips(&(struct world){2, 1, NULL, 1, 0, false});
    check_flips(&(struct world){2, 0, NULL, 16, 0, false});
    check_flips(&(struct world){4, 3, NULL, 4099, 0, false});
    check_flips(&(struct world){2, 1, NULL, 4096, 0, true});
    check_flips(&(struct world){2, 1, NULL, 4096, 3, false});
    check_flips(&(struct world){2, 1, NULL, 3000016, 0, false});
}

/* Numbers that compare as equal, or never do, by their bytes. */
static void test_numbers_are_bytes(void **state)
{
    (void)state;
    struct world world = {2, 0, create(2, 0), 32, 0, false};
    uint64_t bytes = total(&world);
    const uint32_t stored[8] = {0, 0x80000000u, 0x7fc00000u, 0x7fc00001u, 0xffc00000u, 0x7f800001u, 0x3f800000u, 1};
    unsigned char *kept = malloc(bytes);
    resize(world.slots, &bytes, 1);
    memcpy(kept, host, sizeof stored);
    memcpy(host, stored, sizeof stored);
    store_unit(&world, 1);
    assert_int_equal(serve_unit(&world, (const unsigned char *)stored, 1), RP_COMPARE_EQUAL);
    for (int i = 0; i < 8; i++) {
        uint32_t live[8];
        memcpy(live, stored, sizeof live);
        live[i] ^= i < 2 ? 0x80000000u : 0x00000002u; /* the other zero, another payload */
        assert_int_equal(serve_unit(&world, (const unsigned char *)live, 1), RP_COMPARE_UNLIKE);
    }
    memcpy(host, kept, sizeof stored);
    free(kept);
    rp_slots_destroy(world.slots);
}

static void test_another_serial_is_unlike(void **state)
{
    (void)state;
    struct world world = {2, 1, create(2, 1), 1000, 0, false};
    uint64_t bytes = total(&world);
    const unsigned char *own = host + world.bytes;
    resize(world.slots, &bytes, 1);
    store_unit(&world, 41);
    assert_int_equal(serve_unit(&world, own, 41), RP_COMPARE_EQUAL);
    assert_int_equal(serve_unit(&world, own, 40), RP_COMPARE_UNLIKE);
    assert_int_equal(serve_unit(&world, own, 0), RP_COMPARE_UNLIKE);
    store_unit(&world, 42);
    assert_int_equal(serve_unit(&world, own, 41), RP_COMPARE_UNLIKE);
    assert_int_equal(serve_unit(&world, own, 42), RP_COMPARE_EQUAL);
    rp_slots_destroy(world.slots);
}

/* What can't be stored leaves nothing that could be served. */
static void test_what_is_refused(void **state)
{
    (void)state;
    static unsigned char pageable[4096];
    struct world world = {2, 1, create(2, 1), 1000, 0, false};
    struct rp_slots *slots = world.slots;
    uint64_t bytes = total(&world), ticket;
    assert_false(rp_slots_store(slots, 0, stream, gathered, 1000, 1)); /* no slots yet */
    resize(slots, &bytes, 1);
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 1000, 1, &ticket)); /* nothing stored */
    store_unit(&world, 1);
    assert_false(rp_slots_serve(slots, 1, stream, shard, received, 1000, 1, &ticket));
    assert_false(rp_slots_serve(slots, UINT32_MAX, stream, shard, received, 1000, 1, &ticket));
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 999, 1, &ticket));
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 0, 1, &ticket));
    assert_false(rp_slots_serve(slots, 0, stream, NULL, received, 1000, 1, &ticket));
    assert_false(rp_slots_serve(slots, 0, stream, pageable, received, 1000, 1, &ticket));
    assert_false(rp_slots_serve(slots, 0, stream, shard, pageable, 1000, 1, &ticket));
    assert_false(rp_slots_serve(slots, 0, stream, received + 1, received, 1000, 1, &ticket)); /* half in place */
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 1000, RP_SERIAL_NONE, &ticket));
    assert_int_equal(serve_unit(&world, host + 1000, 1), RP_COMPARE_EQUAL);

    assert_false(rp_slots_store(slots, 0, stream, gathered, 1001, 2)); /* more than the slot */
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 1000, 1, &ticket));
    store_unit(&world, 3);
    assert_false(rp_slots_store(slots, 0, stream, gathered, UINT64_MAX / 2 + 1, 4));
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 1000, 3, &ticket));
    store_unit(&world, 5);
    assert_false(rp_slots_store(slots, 0, stream, pageable, 1000, 6));
    assert_false(rp_slots_serve(slots, 0, stream, shard, received, 1000, 5, &ticket));
    store_unit(&world, 7);
    assert_int_equal(serve_unit(&world, host + 1000, 7), RP_COMPARE_EQUAL);
    rp_slots_destroy(slots);

    struct rp_slots *none = NULL;
    assert_int_equal(rp_slots_create(0, 2, 2, &none), RP_INVALID);
    assert_int_equal(rp_slots_create(1000, 2, 0, &none), RP_UNSUPPORTED);
    assert_null(none);
}

/* A closed gate on `on`. */
static void gate_close(struct gate *gate, cudaStream_t on)
{
    *gate = (struct gate)GATE;
    ok(cudaLaunchHostFunc(on, gate_pass, gate));
}

static void test_a_store_under_way_is_not_settled(void **state)
{
    (void)state;
    struct gate gate;
    struct world world = {2, 1, create(2, 1), 5000, 0, false};
    uint64_t bytes = total(&world), ticket;
    resize(world.slots, &bytes, 1);
    assert_true(rp_slots_settled(world.slots, 0));
    assert_true(rp_slots_settled(world.slots, 9));
    store_unit(&world, 1);
    ok(cudaStreamSynchronize(stream));
    assert_true(rp_slots_settled(world.slots, 0));

    upload(shard, host + 5000, 5000);
    gate_close(&gate, stream);
    assert_true(rp_slots_store(world.slots, 0, stream, gathered, world.bytes, 2));
    assert_false(rp_slots_settled(world.slots, 0));
    assert_true(rp_slots_present(world.slots, 0));
    assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 5000, 2, &ticket));
    assert_int_equal(rp_slots_compared(world.slots, ticket), RP_COMPARE_PENDING);
    gate_open(&gate);
    assert_int_equal(compared(world.slots, ticket), RP_COMPARE_EQUAL);
    assert_true(rp_slots_settled(world.slots, 0));
    rp_slots_destroy(world.slots);
}

/* A reader on another stream waits for the write, a writer for every reader, however many streams read. */
static void test_streams_wait_for_one_another(void **state)
{
    (void)state;
    enum { STREAMS = 7 };
    struct gate gate;
    struct world world = {2, 0, create(2, 0), 200000, 0, false};
    uint64_t bytes = total(&world), tickets[STREAMS], ticket;
    cudaStream_t readers[STREAMS], writer;
    resize(world.slots, &bytes, 1);
    upload(shard, host, world.bytes);
    upload(gathered, host, bytes);
    ok(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
    for (int i = 0; i < STREAMS; i++)
        ok(cudaStreamCreateWithFlags(&readers[i], cudaStreamNonBlocking));

    gate_close(&gate, stream);
    assert_true(rp_slots_store(world.slots, 0, stream, gathered, world.bytes, 1));
    for (int i = 0; i < STREAMS; i++) {
        unsigned char *to = received + (size_t)i * bytes;
        assert_true(rp_slots_serve(world.slots, 0, readers[i], shard, to, world.bytes, 1, &tickets[i]));
    }
    /* the writer's bytes are others: nobody may see them */
    unsigned char *others = gathered + 2 * bytes;
    ok(cudaMemsetAsync(others, 0x77, bytes, writer));
    assert_true(rp_slots_store(world.slots, 0, writer, others, world.bytes, 2));
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(rp_slots_compared(world.slots, tickets[i]), RP_COMPARE_PENDING);
    assert_false(rp_slots_settled(world.slots, 0));
    assert_int_equal(cudaStreamQuery(writer), cudaErrorNotReady);
    gate_open(&gate);
    ok(cudaStreamSynchronize(writer));
    assert_true(rp_slots_settled(world.slots, 0));
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(rp_slots_compared(world.slots, tickets[i]), RP_COMPARE_EQUAL);
        ok(cudaMemcpyAsync(seen, received + (size_t)i * bytes, bytes, cudaMemcpyDeviceToHost, stream));
        ok(cudaStreamSynchronize(stream));
        assert_memory_equal(seen, host, bytes);
    }
    assert_true(rp_slots_serve(world.slots, 0, stream, others, received, world.bytes, 2, &ticket));
    assert_int_equal(compared(world.slots, ticket), RP_COMPARE_EQUAL);
    for (int i = 0; i < STREAMS; i++)
        ok(cudaStreamDestroy(readers[i]));
    ok(cudaStreamDestroy(writer));
    rp_slots_destroy(world.slots);
}

/* Many compares under way at once on two streams, each with a verdict of its own. */
static void test_many_tickets(void **state)
{
    (void)state;
    enum { MANY = 600 };
    struct world world = {2, 0, create(2, 0), 5000, 0, false};
    uint64_t bytes = total(&world), tickets[MANY];
    cudaStream_t second;
    resize(world.slots, &bytes, 1);
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    store_unit(&world, 1);
    for (size_t i = 0; i < 64; i++) {
        upload(shard + i * 5008, host, 5000);
        if (i % 3 == 0)
            ok(cudaMemsetAsync(shard + i * 5008 + 78 * i, host[78 * i] ^ 0x10, 1, stream));
    }
    ok(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < MANY; i++)
        assert_true(rp_slots_serve(world.slots, 0, i % 2 ? second : stream, shard + i % 64 * 5008,
                                   received + i % 2 * 10000, world.bytes, 1, &tickets[i]));
    ok(cudaStreamSynchronize(second));
    ok(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(rp_slots_compared(world.slots, tickets[i]),
                         i % 64 % 3 == 0 ? RP_COMPARE_UNLIKE : RP_COMPARE_EQUAL);
        assert_true(i == 0 || tickets[i] > tickets[i - 1]);
    }
    ok(cudaStreamDestroy(second));
    rp_slots_destroy(world.slots);
}

/* A verdict whose entry was used again is no yes. */
static void test_entries_are_used_again(void **state)
{
    (void)state;
    struct world world = {2, 0, create(2, 0), 16, 0, false};
    uint64_t bytes = total(&world), first, ticket = 0;
    resize(world.slots, &bytes, 1);
    store_unit(&world, 1);
    upload(shard, host, 16);
    assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 16, 1, &first));
    assert_int_equal(compared(world.slots, first), RP_COMPARE_EQUAL);
    assert_int_equal(rp_slots_compared(world.slots, first + 1), RP_COMPARE_PENDING);
    for (unsigned i = 1; i <= RP_SLOTS_TICKETS; i++) {
        assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 16, 1, &ticket));
        assert_int_equal(ticket, first + i);
        if (i % 100 == 0)
            assert_int_equal(compared(world.slots, ticket), RP_COMPARE_EQUAL);
    }
    assert_int_equal(compared(world.slots, ticket), RP_COMPARE_EQUAL);
    assert_int_equal(rp_slots_compared(world.slots, first), RP_COMPARE_UNLIKE);
    rp_slots_destroy(world.slots);
}

/* An entry whose compare has not ended is not used again: the two would share what they count in. */
static void test_an_entry_under_way_is_not_used(void **state)
{
    (void)state;
    struct gate gate;
    struct world world = {2, 0, create(2, 0), 16, 0, false};
    uint64_t bytes = total(&world), under_way, ticket = 0;
    cudaStream_t second;
    resize(world.slots, &bytes, 1);
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    store_unit(&world, 1);
    upload(shard, host, 16);
    gate_close(&gate, second);
    assert_true(rp_slots_serve(world.slots, 0, second, shard, received + 64, 16, 1, &under_way));
    for (unsigned i = 1; i < RP_SLOTS_TICKETS; i++)
        assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 16, 1, &ticket));
    assert_int_equal(compared(world.slots, ticket), RP_COMPARE_EQUAL);
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, 16, 1, &ticket));
    assert_int_equal(rp_slots_compared(world.slots, under_way), RP_COMPARE_PENDING);
    gate_open(&gate);
    ok(cudaStreamSynchronize(second));
    assert_int_equal(rp_slots_compared(world.slots, under_way), RP_COMPARE_EQUAL);
    assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 16, 1, &ticket));
    assert_int_equal(ticket, under_way + RP_SLOTS_TICKETS);
    assert_int_equal(compared(world.slots, ticket), RP_COMPARE_EQUAL);
    ok(cudaStreamDestroy(second));
    rp_slots_destroy(world.slots);
}

/* What keeps size and place keeps its content; others have none; all or none. */
static void test_resize(void **state)
{
    (void)state;
    struct world world = {2, 0, create(2, 0), 3000, 0, false};
    size_t unused, all;
    ok(cudaMemGetInfo(&unused, &all));
    const uint64_t three[] = {6000, 10000, 5 * MIB}, two[] = {6000, 10001}, impossible[] = {6000, all};
    uint64_t ticket;
    assert_false(rp_slots_present(world.slots, 0));
    resize(world.slots, three, 3);
    assert_int_equal(rp_slots_held(0), 10 * MIB);
    store_unit(&world, 1);
    assert_true(rp_slots_store(world.slots, 1, stream, gathered, 3000, 2));
    ok(cudaStreamSynchronize(stream));
    resize(world.slots, two, 2);
    assert_int_equal(rp_slots_held(0), 4 * MIB);
    assert_true(rp_slots_present(world.slots, 1));
    assert_false(rp_slots_present(world.slots, 2));
    assert_true(rp_slots_settled(world.slots, 1));
    assert_int_equal(serve_unit(&world, host, 1), RP_COMPARE_EQUAL);
    assert_false(rp_slots_serve(world.slots, 1, stream, shard, received, 3000, 2, &ticket));

    assert_int_equal(rp_slots_resize(world.slots, impossible, 2), RP_NO_MEMORY);
    assert_true(strlen(rp_gpu_error()) > 0);
    assert_false(rp_slots_present(world.slots, 0));
    assert_int_equal(rp_slots_held(0), 0);
    resize(world.slots, two, 2);
    store_unit(&world, 9);
    assert_int_equal(serve_unit(&world, host, 9), RP_COMPARE_EQUAL);
    resize(world.slots, NULL, 0);
    assert_int_equal(rp_slots_held(0), 0);
    rp_slots_destroy(world.slots);
}

/* Memory that work still uses stays until that has ended, wherever it is given up. */
static void test_memory_in_use_is_kept(void **state)
{
    (void)state;
    struct gate gate;
    struct world world = {2, 0, create(2, 0), 3000, 0, false};
    const uint64_t bytes = total(&world), other = 4 * MIB;
    resize(world.slots, &bytes, 1);
    upload(gathered, host, bytes);
    gate_close(&gate, stream);
    assert_true(rp_slots_store(world.slots, 0, stream, gathered, 3000, 1));
    assert_false(rp_slots_reclaim(0));
    assert_true(rp_slots_present(world.slots, 0));
    resize(world.slots, &other, 1);
    assert_int_equal(rp_slots_held(0), 6 * MIB);
    assert_true(rp_slots_store(world.slots, 0, stream, gathered, 3000, 1));
    rp_slots_destroy(world.slots);
    assert_int_equal(rp_slots_held(0), 6 * MIB);
    gate_open(&gate);
    ok(cudaStreamSynchronize(stream));
    assert_true(rp_slots_reclaim(0));
    assert_int_equal(rp_slots_held(0), 0);
    assert_false(rp_slots_reclaim(0));
}

static void test_reclaim(void **state)
{
    (void)state;
    struct world world = {2, 0, create(2, 0), 3000, 0, false};
    struct rp_slots *second = create(4, 3);
    const uint64_t sizes[] = {6000, 6000}, large = 9 * MIB;
    uint64_t ticket;
    resize(world.slots, sizes, 2);
    resize(second, &large, 1);
    store_unit(&world, 1);
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(rp_slots_held(0), 14 * MIB);
    assert_false(rp_slots_reclaim(1));
    assert_true(rp_slots_reclaim(0));
    assert_int_equal(rp_slots_held(0), 0);
    assert_false(rp_slots_present(world.slots, 0));
    assert_false(rp_slots_present(second, 0));
    assert_true(rp_slots_settled(world.slots, 0));
    assert_false(rp_slots_store(world.slots, 0, stream, gathered, 3000, 2));
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 1, &ticket));

    resize(world.slots, sizes, 2);
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 1, &ticket)); /* other memory */
    store_unit(&world, 3);
    assert_int_equal(serve_unit(&world, host, 3), RP_COMPARE_EQUAL);
    rp_slots_destroy(second);
    rp_slots_destroy(world.slots);
    assert_int_equal(rp_slots_held(0), 0);
}

/* The application's allocation fails for what slots hold, and succeeds after. */
static void test_an_allocation_after_reclaim(void **state)
{
    (void)state;
    struct rp_slots *slots = create(2, 0);
    size_t unused, all;
    void *memory = NULL;
    ok(cudaMemGetInfo(&unused, &all));
    const uint64_t sizes[] = {unused / 2 & ~(uint64_t)1023, unused / 4};
    resize(slots, sizes, 2);
    assert_int_equal(cudaMalloc(&memory, unused / 2), cudaErrorMemoryAllocation);
    cudaGetLastError();
    assert_true(rp_slots_reclaim(0));
    ok(cudaMalloc(&memory, unused / 2));
    ok(cudaFree(memory));
    rp_slots_destroy(slots);
}

static void test_budget(void **state)
{
    (void)state;
    struct rp_slots *slots = create(2, 0);
    const uint64_t bytes = 32 * MIB, least = (uint64_t)4 << 30;
    size_t unused, all;
    resize(slots, &bytes, 1);
    ok(cudaMemGetInfo(&unused, &all));
    uint64_t most = unused + bytes, reserve = all / 10 > least ? all / 10 : least;
    assert_int_equal(rp_slots_budget(0, 0), most > reserve ? most - reserve : 0);
    assert_int_equal(rp_slots_budget(0, 5 * MIB), 5 * MIB);
    assert_int_equal(rp_slots_budget(0, UINT64_MAX), most);
    assert_int_equal(rp_slots_budget(1000, 0), 0);
    rp_slots_destroy(slots);
}

/* A later communicator gets the same entries, and none of the content or verdicts before it. */
static void test_a_set_is_handed_on(void **state)
{
    (void)state;
    struct gate gate;
    struct world world = {2, 0, create(2, 0), 3000, 0, false};
    const uint64_t bytes = total(&world);
    uint64_t before, after;
    resize(world.slots, &bytes, 1);
    store_unit(&world, 1);
    upload(shard, host, 3000);
    gate_close(&gate, stream);
    assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 1, &before));
    rp_slots_destroy(world.slots);
    gate_open(&gate);
    ok(cudaStreamSynchronize(stream));
    struct rp_slots *again = create(2, 0);
    assert_ptr_equal(again, world.slots);
    assert_false(rp_slots_present(again, 0));
    resize(again, &bytes, 1);
    assert_false(rp_slots_serve(again, 0, stream, shard, received, 3000, 1, &after));
    store_unit(&world, 1);
    assert_true(rp_slots_serve(again, 0, stream, shard, received, 3000, 1, &after));
    assert_int_equal(after, before + 1);
    assert_int_equal(compared(again, after), RP_COMPARE_EQUAL);
    rp_slots_destroy(again);
}

/* Device time between two places, in order, not before the device has come there, a new owner's from its own first. */
static void test_stamps(void **state)
{
    (void)state;
    struct gate gate;
    struct rp_slots *slots = create(2, 0);
    uint64_t position;
    int64_t ns;
    for (unsigned round = 0; round < 100; round++) {
        assert_true(rp_slots_stamp(slots, stream, 2 * round));
        ok(cudaMemsetAsync(received, 0x5a, LARGEST, stream));
        assert_true(rp_slots_stamp(slots, stream, 2 * round + 1));
        ok(cudaStreamSynchronize(stream));
        assert_true(rp_slots_stamped(slots, &position, &ns));
        assert_int_equal(position, 2 * round);
        assert_true(round > 0 || ns == 0);
        assert_true(rp_slots_stamped(slots, &position, &ns));
        assert_int_equal(position, 2 * round + 1);
        assert_true(ns > 0);
        assert_false(rp_slots_stamped(slots, &position, &ns));
    }
    gate_close(&gate, stream);
    unsigned taken = 0;
    while (rp_slots_stamp(slots, stream, 1000 + taken))
        taken++;
    assert_in_range(taken, 100, 500); /* a device's queue has room for more, or this test would not get here */
    assert_false(rp_slots_stamped(slots, &position, &ns));
    gate_open(&gate);
    ok(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i + 1 < taken; i++) {
        assert_true(rp_slots_stamped(slots, &position, &ns));
        assert_int_equal(position, 1000 + i);
    }
    rp_slots_destroy(slots); /* one was not given out */
    struct rp_slots *again = create(2, 0);
    assert_ptr_equal(again, slots);
    assert_false(rp_slots_stamped(again, &position, &ns));
    assert_true(rp_slots_stamp(again, stream, 5));
    ok(cudaStreamSynchronize(stream));
    assert_true(rp_slots_stamped(again, &position, &ns));
    assert_int_equal(position, 5);
    assert_int_equal(ns, 0);
    rp_slots_destroy(again);
}

struct server {
    struct rp_slots *slots;
    cudaStream_t stream;
    unsigned char *receive;
    unsigned served, unlike;
};

static _Atomic int serving;

static void *serve_many(void *argument)
{
    struct server *server = argument;
    for (uint64_t i = 1; server->served < 100; i++) {
        uint64_t ticket;
        if (!rp_slots_store(server->slots, 0, server->stream, gathered, 3000, i) ||
            !rp_slots_serve(server->slots, 0, server->stream, gathered, server->receive, 3000, i, &ticket)) {
            usleep(20);
            continue;
        }
        while (rp_slots_compared(server->slots, ticket) == RP_COMPARE_PENDING)
            usleep(20);
        server->served++;
        server->unlike += rp_slots_compared(server->slots, ticket) != RP_COMPARE_EQUAL;
    }
    atomic_fetch_sub(&serving, 1);
    return NULL;
}

/* Memory taken away and given back by another thread at any moment: a serve is refused or right. */
static void test_reclaim_beside_serving(void **state)
{
    (void)state;
    struct server servers[2];
    pthread_t threads[2];
    const uint64_t bytes = 6000;
    upload(gathered, host, bytes);
    atomic_store(&serving, 2);
    for (int i = 0; i < 2; i++) {
        servers[i] = (struct server){create(2, 0), NULL, received + 8192 * i, 0, 0};
        ok(cudaStreamCreateWithFlags(&servers[i].stream, cudaStreamNonBlocking));
        assert_int_equal(pthread_create(&threads[i], NULL, serve_many, &servers[i]), 0);
    }
    while (atomic_load(&serving) > 0) {
        rp_slots_reclaim(0);
        resize(servers[0].slots, &bytes, 1);
        resize(servers[1].slots, &bytes, 1);
        usleep(200);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        ok(cudaStreamSynchronize(servers[i].stream));
        ok(cudaStreamDestroy(servers[i].stream));
        assert_int_equal(servers[i].unlike, 0);
        rp_slots_destroy(servers[i].slots);
    }
    assert_int_equal(rp_slots_held(0), 0);
}

static CUresult copy_fails(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on)
{
    (void)to, (void)from, (void)bytes, (void)on;
    return CUDA_ERROR_UNKNOWN;
}

/* A store that breaks off half-way: neither host nor device takes what is there for an op's. */
static void test_half_a_store_is_nobodys(void **state)
{
    (void)state;
    struct world world = {2, 0, create(2, 0), 3000, 0, false};
    uint64_t bytes = total(&world), ticket, serial = 0;
    resize(world.slots, &bytes, 1);
    store_unit(&world, 1);
    __typeof__(rp_gpu_driver.p_cuMemcpyDtoDAsync) kept = rp_gpu_driver.p_cuMemcpyDtoDAsync;
    rp_gpu_driver.p_cuMemcpyDtoDAsync = copy_fails;
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 1, &ticket));
    assert_false(rp_slots_store(world.slots, 0, stream, gathered, 3000, 2));
    rp_gpu_driver.p_cuMemcpyDtoDAsync = kept;
    ok(cudaStreamSynchronize(stream));
    ok(cudaMemcpy(&serial, (void *)(uintptr_t)world.slots->table.slots[0]->serial, sizeof serial,
                  cudaMemcpyDeviceToHost));
    assert_true(serial == RP_SERIAL_NONE);
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 1, &ticket));
    assert_false(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 2, &ticket));
    store_unit(&world, 3);
    assert_int_equal(serve_unit(&world, host, 3), RP_COMPARE_EQUAL);
    rp_slots_destroy(world.slots);
}

/* The calls work while another stream is captured, and break no capture. */
static void test_beside_a_capture(void **state)
{
    (void)state;
    cudaStream_t captured;
    cudaGraph_t graph;
    struct world world = {2, 0, create(2, 0), 3000, 0, false};
    uint64_t bytes = total(&world), ticket;
    upload(gathered, host, bytes);
    upload(shard, host, 3000);
    ok(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
    ok(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    resize(world.slots, &bytes, 1);
    assert_true(rp_slots_store(world.slots, 0, stream, gathered, 3000, 1));
    assert_true(rp_slots_serve(world.slots, 0, stream, shard, received, 3000, 1, &ticket));
    while (rp_slots_compared(world.slots, ticket) == RP_COMPARE_PENDING)
        usleep(20);
    assert_int_equal(rp_slots_compared(world.slots, ticket), RP_COMPARE_EQUAL);
    while (!rp_slots_reclaim(0))
        usleep(20);
    ok(cudaStreamEndCapture(captured, &graph));
    ok(cudaGraphDestroy(graph));
    ok(cudaStreamDestroy(captured));
    rp_slots_destroy(world.slots);
}

/* An older driver has no such functions: slots say so, the rest goes on. */
static void test_an_older_driver(void **state)
{
    (void)state;
    struct rp_slots *none = NULL;
    struct rp_gpu_device *device;
    __typeof__(rp_gpu_driver.p_cuMemCreate) kept = rp_gpu_driver.p_cuMemCreate;
    rp_gpu_driver.p_cuMemCreate = NULL;
    assert_int_equal(rp_slots_create(0, 2, 0, &none), RP_UNSUPPORTED);
    assert_string_equal(rp_gpu_error(), "the driver has no cuMemCreate");
    assert_int_equal(rp_gpu_device_get(0, &device), RP_OK);
    assert_int_equal(rp_slots_budget(0, 0), 0);
    rp_gpu_driver.p_cuMemCreate = kept;
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_other_parts_are_delivered),
        cmocka_unit_test(test_a_slot_of_several_chunks),
        cmocka_unit_test(test_a_flipped_bit_is_unlike),
        cmocka_unit_test(test_numbers_are_bytes),
        cmocka_unit_test(test_another_serial_is_unlike),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_a_store_under_way_is_not_settled),
        cmocka_unit_test(test_streams_wait_for_one_another),
        cmocka_unit_test(test_many_tickets),
        cmocka_unit_test(test_entries_are_used_again),
        cmocka_unit_test(test_an_entry_under_way_is_not_used),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_memory_in_use_is_kept),
        cmocka_unit_test(test_reclaim),
        cmocka_unit_test(test_an_allocation_after_reclaim),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_a_set_is_handed_on),
        cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_reclaim_beside_serving),
        cmocka_unit_test(test_half_a_store_is_nobodys),
        cmocka_unit_test(test_beside_a_capture),
        cmocka_unit_test(test_an_older_driver),
    };
    alarm(300); /* a call that waits for a device that waits for the test */
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
