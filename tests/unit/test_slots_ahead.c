/* link: fake */
/* link: shim: slots*.c */
/* link: shim: gpu.c kernels_image.c */
/*
 * Snapshots, and gathers of ours into slots; the gather itself is a copy here. Runs on the stand-in runtime, and on a
 * real device with the vendor's libraries in LD_LIBRARY_PATH.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/plan/plan.h"
#include "shim/slots_private.h"
#include "tests/fake/gate.h"

#define PART 3000u
#define UNIT (2 * PART) /* rank 1 of 2 */
#define MIB ((uint64_t)1 << 20)

static unsigned char bytes_of[UNIT];
static unsigned char *unit, *received; /* device memory: bytes_of, and where serves go */
static cudaStream_t stream, child;
static struct rp_slots *slots;
static void *base;

static void ok(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static void await_all(void)
{
    ok(cudaStreamSynchronize(stream));
    ok(cudaStreamSynchronize(child));
}

static int group_setup(void **state)
{
    (void)state;
    setenv("FAKE_MEMORY_MB", "64", 1);
    for (size_t i = 0; i < UNIT; i++)
        bytes_of[i] = (unsigned char)(i * 7 ^ i >> 6);
    ok(cudaMalloc((void **)&unit, UNIT));
    ok(cudaMalloc((void **)&received, UNIT));
    ok(cudaMemcpy(unit, bytes_of, UNIT, cudaMemcpyHostToDevice));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&child, cudaStreamNonBlocking));
    return 0;
}

/* Two slots, the second larger than a unit; two snapshots. */
static int setup(void **state)
{
    (void)state;
    const uint64_t units[] = {UNIT, 2 * MIB + 1}, snapshots[] = {PART, 2 * PART};
    if (rp_slots_create(0, 2, 1, &slots) != RP_OK ||
        rp_slots_resize_ahead(slots, units, 2, snapshots, 2, true) != RP_OK)
        fail_msg("%s", rp_gpu_error());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    await_all();
    rp_slots_destroy(slots);
    assert_int_equal(rp_slots_held(0), 0);
    return 0;
}

/* The gather: both parts, of which the own one is what the slot has. */
static void gather(uint64_t part)
{
    ok(cudaMemcpyAsync(base, unit, part, cudaMemcpyDeviceToDevice, child));
}

static bool fill(uint32_t slot, uint32_t snapshot, uint64_t part, uint64_t serial)
{
    bool begun = rp_slots_fill_begin(slots, slot, snapshot, child, part, &base);
    if (base != NULL)
        gather(part);
    bool ended = rp_slots_fill_end(slots, slot, snapshot, child, serial);
    assert_true(begun || !ended);
    return ended;
}

/* PENDING: refused. What is delivered is the unit. */
static enum rp_compare serve(uint32_t slot, uint64_t part, uint64_t serial)
{
    uint64_t ticket;
    static unsigned char seen[UNIT];
    ok(cudaMemsetAsync(received, 0x5a, UNIT, stream));
    if (!rp_slots_serve(slots, slot, stream, unit + part, received, part, serial, &ticket))
        return RP_COMPARE_PENDING;
    ok(cudaMemcpyAsync(seen, received, 2 * part, cudaMemcpyDeviceToHost, stream));
    await_all();
    assert_memory_equal(seen, bytes_of, 2 * part);
    return rp_slots_compared(slots, ticket);
}

static uint64_t serial_of(const struct rp_slot *slot)
{
    uint64_t serial = 0;
    await_all();
    ok(cudaMemcpy(&serial, (void *)(uintptr_t)slot->serial, sizeof serial, cudaMemcpyDeviceToHost));
    return serial;
}

/* A snapshot holds the own part, is sent, and gives its serial. */
static void test_fills(void **state)
{
    (void)state;
    assert_false(fill(0, 0, PART, 1)); /* nothing in the snapshot */
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_PENDING);
    for (uint64_t serial = 1; serial < 20; serial++) {
        assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, serial));
        assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
        assert_int_equal(serve(0, PART, serial), RP_COMPARE_EQUAL);
        assert_int_equal(serve(0, PART, serial + 1), RP_COMPARE_UNLIKE);
    }
    /* units smaller than slot and snapshot */
    for (uint64_t part = 1; part < PART; part = part * 3 + 1) {
        assert_true(rp_slots_snapshot(slots, 1, stream, unit, part, part));
        assert_true(fill(1, 1, part, RP_SERIAL_NONE));
        assert_int_equal(serve(1, part, part), RP_COMPARE_EQUAL);
        assert_int_equal(serve(1, part + 1, part), RP_COMPARE_PENDING);
        assert_true(rp_slots_store(slots, 0, stream, unit, part, part));
        assert_int_equal(serve(0, part, part), RP_COMPARE_EQUAL);
    }
}

/* What fails leaves nobody's content, and a place for the gather where there is memory. */
static void test_what_fails(void **state)
{
    (void)state;
    static unsigned char pageable[UNIT];
    assert_false(rp_slots_snapshot(slots, 2, stream, unit, PART, 1));
    assert_false(rp_slots_snapshot(slots, 0, stream, unit, PART + 1, 1));
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));
    assert_false(rp_slots_snapshot(slots, 0, stream, pageable, PART, 2));
    assert_false(fill(0, 0, PART, 1)); /* the failed store has taken the one before away */
    assert_ptr_equal(base, (void *)(uintptr_t)slots->table.slots[0]->memory.base);
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 3));
    assert_false(fill(0, 0, PART - 1, 3)); /* another size */
    assert_non_null(base);
    assert_false(fill(0, 2, PART, 3)); /* no such snapshot */
    assert_non_null(base);
    assert_false(fill(0, RP_NO_SLOT, PART, 3)); /* nothing live */
    assert_non_null(base);
    assert_true(serial_of(slots->table.slots[0]) == RP_SERIAL_NONE);
    assert_int_equal(serve(0, PART, 3), RP_COMPARE_PENDING);
    assert_false(fill(2, 0, PART, 3)); /* no such slot */
    assert_null(base);
    assert_false(fill(0, 0, PART + 1, 3)); /* too small */
    assert_null(base);
    assert_false(rp_slots_fill_end(slots, 0, 0, child, 3)); /* not begun */
    slots->table.slots[0]->order.lost = true;
    assert_false(rp_slots_present(slots, 0));
    fill(0, 0, PART, 3);
    assert_non_null(base); /* of no use here, but the others gather */
    assert_int_equal(serve(0, PART, 3), RP_COMPARE_PENDING);
    slots->table.slots[0]->order.lost = false;
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
    assert_int_equal(serve(0, PART, 3), RP_COMPARE_EQUAL);
}

static CUresult wait_fails(CUstream on, CUevent event, unsigned flags)
{
    (void)on, (void)event, (void)flags;
    return CUDA_ERROR_UNKNOWN;
}

/* A gather that can't be made to wait for who reads the slot is none. */
static void test_no_order_no_gather(void **state)
{
    (void)state;
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));
    assert_true(rp_slots_store(slots, 0, stream, unit, PART, 1));
    __typeof__(rp_gpu_driver.p_cuStreamWaitEvent) kept = rp_gpu_driver.p_cuStreamWaitEvent;
    rp_gpu_driver.p_cuStreamWaitEvent = wait_fails;
    assert_false(rp_slots_fill_begin(slots, 0, 0, child, PART, &base));
    rp_gpu_driver.p_cuStreamWaitEvent = kept;
    assert_null(base);
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_PENDING);
}

/* The live buffer may be written again at once. */
static void test_live(void **state)
{
    (void)state;
    unsigned char *send;
    ok(cudaMalloc((void **)&send, PART));
    for (uint64_t serial = 1; serial < 10; serial++) {
        ok(cudaMemcpyAsync(send, unit + PART, PART, cudaMemcpyDeviceToDevice, stream));
        assert_true(rp_slots_live(slots, 1, stream, send, PART));
        ok(cudaMemsetAsync(send, 0, PART, stream));
        assert_int_equal(serve(1, PART, serial - 1), RP_COMPARE_PENDING);
        assert_true(fill(1, RP_NO_SLOT, PART, serial));
        assert_int_equal(serve(1, PART, serial), RP_COMPARE_EQUAL);
        assert_false(fill(1, RP_NO_SLOT, PART, serial)); /* sent once */
    }
    assert_true(rp_slots_live(slots, 1, stream, unit + PART, PART));
    assert_true(rp_slots_store(slots, 1, stream, unit, PART, 77)); /* what came in between is no live part */
    assert_false(fill(1, RP_NO_SLOT, PART, 78));
    assert_true(rp_slots_live(slots, 1, stream, unit + PART, PART));
    assert_false(fill(1, RP_NO_SLOT, PART - 1, 79));
    assert_true(rp_slots_live(slots, 1, stream, unit + PART, PART));
    assert_false(rp_slots_live(slots, 1, stream, bytes_of, PART));
    assert_false(fill(1, RP_NO_SLOT, PART, 80));
    assert_false(rp_slots_live(slots, 2, stream, unit, PART));
    ok(cudaFree(send));
}

/* From begin to end nobody else uses the slot, also if the end comes after a resize, or never. */
static void test_open_fills(void **state)
{
    (void)state;
    const uint64_t other = 4 * MIB;
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
    await_all();
    assert_true(rp_slots_settled(slots, 0));
    assert_true(rp_slots_fill_begin(slots, 0, 0, child, PART, &base));
    await_all();
    assert_false(rp_slots_settled(slots, 0));
    assert_false(rp_slots_present(slots, 0));
    assert_false(rp_slots_store(slots, 0, stream, unit, PART, 2));
    assert_false(rp_slots_live(slots, 0, stream, unit, PART));
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_PENDING);
    assert_false(rp_slots_fill_end(slots, 0, 0, stream, 2)); /* another stream's */
    gather(PART);
    assert_true(rp_slots_fill_end(slots, 0, 0, child, 2));
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_EQUAL);

    assert_true(rp_slots_fill_begin(slots, 0, 0, child, PART, &base));
    assert_true(rp_slots_fill_begin(slots, 1, 0, child, PART, &base));
    assert_int_equal(rp_slots_resize(slots, &other, 1), RP_OK);
    await_all();
    assert_int_equal(rp_slots_own(slots), other);
    rp_slots_reclaim(0);
    assert_int_equal(rp_slots_held(0), 2 * MIB + 4 * MIB); /* what NCCL may still write to */
    assert_false(rp_slots_fill_end(slots, 0, 0, child, 2));
    rp_slots_fill_drop(slots, stream);
    assert_false(rp_slots_reclaim(0));
    rp_slots_fill_drop(slots, child);
    await_all();
    assert_true(rp_slots_reclaim(0));
    assert_int_equal(rp_slots_held(0), 0);
}

/* An abort comes while one fill is under way and another has ended: neither is served any more. */
static void test_cut(void **state)
{
    (void)state;
    struct gate gate = GATE;
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
    await_all();
    ok(cudaLaunchHostFunc(child, gate_pass, &gate));
    assert_true(fill(1, 0, PART, RP_SERIAL_NONE));
    rp_slots_fill_cut(slots, child);
    gate_open(&gate);
    await_all();
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_PENDING);
    assert_int_equal(serve(1, PART, 1), RP_COMPARE_PENDING);
    rp_slots_fill_drop(slots, child);
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_PENDING);
    assert_int_equal(serve(1, PART, 1), RP_COMPARE_PENDING);
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE)); /* a stream of the same name */
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_EQUAL);
}

/* Bytes count, what fits stays, all or none; and where fills go a slot stays when the application wants memory. */
static void test_memory(void **state)
{
    (void)state;
    const uint64_t units[] = {UNIT, 4 * MIB}, snapshots[] = {PART, PART},
                   all = UINT64_C(1) << 40; /* more than any device has */
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
    await_all();
    assert_int_equal(rp_slots_own(slots), (2 + 4 + 2 + 2) * MIB);
    assert_int_equal(rp_slots_held(0), (2 + 4 + 2 + 2) * MIB);
    assert_true(rp_slots_reclaim(0));
    assert_int_equal(rp_slots_own(slots), 4 * MIB);
    assert_false(rp_slots_reclaim(0));
    assert_false(rp_slots_present(slots, 0));
    assert_true(rp_slots_present(slots, 1));
    assert_true(rp_slots_store(slots, 1, stream, unit, PART, 7));
    assert_false(fill(0, 0, PART, 3)); /* what was to go into the slot that is gone */
    assert_ptr_equal(base, (void *)(uintptr_t)slots->table.slots[1]->memory.base);
    await_all();
    assert_int_equal(serve(1, PART, 7), RP_COMPARE_PENDING); /* it has overwritten what was there */

    assert_int_equal(rp_slots_resize_ahead(slots, units, 2, snapshots, 2, false), RP_OK);
    assert_true(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
    assert_int_equal(rp_slots_resize_ahead(slots, units, 2, snapshots, 2, false), RP_OK);
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_EQUAL);
    assert_true(fill(0, 0, PART, RP_SERIAL_NONE));
    assert_int_equal(serve(0, PART, 1), RP_COMPARE_EQUAL);
    assert_true(rp_slots_reclaim(0));
    assert_int_equal(rp_slots_own(slots), 0);
    assert_false(rp_slots_snapshot(slots, 0, stream, unit, PART, 1));

    assert_int_equal(rp_slots_resize_ahead(slots, units, 2, &all, 1, true), RP_NO_MEMORY);
    assert_int_equal(rp_slots_held(0), 0);
    assert_int_equal(rp_slots_resize_ahead(slots, units, 2, snapshots, 2, true), RP_OK);
    assert_int_equal(rp_slots_resize(slots, units, 1), RP_OK);
    assert_int_equal(rp_slots_own(slots), 2 * MIB);
    assert_true(rp_slots_reclaim(0)); /* no longer pinned */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_fills), TEST(test_what_fails), TEST(test_no_order_no_gather), TEST(test_live), TEST(test_open_fills),
        TEST(test_cut),   TEST(test_memory),
    };
    alarm(100);
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
