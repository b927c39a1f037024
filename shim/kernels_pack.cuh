/*
 * The kernels of packed slots; a part of kernels.cu. A warp takes a block of elements at a time, a lane eight of them
 * that lie together, so that what it loads and stores of each plane is one piece. Parameters: pack.h.
 */
#include "shim/pack.h"

#define WARP 32u
#define LANE_ELEMENTS 8u
#define ALL_LANES 0xffffffffu

static_assert(WARP * LANE_ELEMENTS == RP_PACK_BLOCK, "a warp takes a block");

/* Eight elements as four words, the even one of each low. */
struct eight {
    uint32_t word[LANE_ELEMENTS / 2];
};

__device__ static uint32_t element_of(const eight *elements, unsigned i)
{
    return elements->word[i / 2] >> (i % 2 * 16) & 0xffffu;
}

__device__ static void set_element(eight *elements, unsigned i, uint32_t element)
{
    elements->word[i / 2] |= element << (i % 2 * 16);
}

/* Elements that the lane has of a part, from `first` on: fewer than eight only at its end. */
__device__ static unsigned lane_count(uint64_t elements, uint64_t first)
{
    return first >= elements ? 0 : elements - first < LANE_ELEMENTS ? (unsigned)(elements - first) : LANE_ELEMENTS;
}

__device__ static bool is_whole(const void *data, unsigned count)
{
    return count == LANE_ELEMENTS && (uintptr_t)data % 16 == 0;
}

/* Zeros where there are fewer than eight. */
__device__ static eight load_elements(const uint16_t *from, unsigned count)
{
    eight elements = {{0, 0, 0, 0}};
    if (is_whole(from, count)) {
        uint4 words = __ldcs((const uint4 *)from);
        elements.word[0] = words.x;
        elements.word[1] = words.y;
        elements.word[2] = words.z;
        elements.word[3] = words.w;
        return elements;
    }
    for (unsigned i = 0; i < count; i++)
        set_element(&elements, i, from[i]);
    return elements;
}

__device__ static void store_elements(uint16_t *to, const eight *elements, unsigned count)
{
    if (is_whole(to, count)) {
        __stcs((uint4 *)to, make_uint4(elements->word[0], elements->word[1], elements->word[2], elements->word[3]));
        return;
    }
    for (unsigned i = 0; i < count; i++)
        to[i] = (uint16_t)element_of(elements, i);
}

/* The largest exponent of the warp's elements below `below`. */
__device__ static uint32_t warp_largest(const eight *elements, unsigned count, uint32_t below)
{
    uint32_t base = 0;
    for (unsigned i = 0; i < count; i++)
        base = rp_pack_base_with(base, element_of(elements, i), below);
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2)
        base = max(base, __shfl_xor_sync(ALL_LANES, base, offset));
    return base;
}

__device__ static uint32_t warp_exceptions(const eight *elements, unsigned count, uint32_t base)
{
    uint32_t exceptions = 0;
    for (unsigned i = 0; i < count; i++)
        exceptions += rp_pack_code(element_of(elements, i), base) == RP_PACK_OTHER;
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2)
        exceptions += __shfl_xor_sync(ALL_LANES, exceptions, offset);
    return exceptions;
}

/* All lanes have the same figures, and so take the same way. */
__device__ static uint32_t warp_base(const eight *elements, unsigned count)
{
    uint32_t best = warp_largest(elements, count, 0xff), base = best;
    uint32_t fewest = warp_exceptions(elements, count, best);
    for (unsigned tries = 1; tries < RP_PACK_BASES && fewest > RP_PACK_MANY && base > 0; tries++) {
        base = warp_largest(elements, count, base);
        uint32_t exceptions = warp_exceptions(elements, count, base);
        best = exceptions < fewest ? base : best;
        fewest = min(exceptions, fewest);
    }
    return best;
}

__device__ static void list_exception(const rp_packed *packed, uint64_t room, uint64_t index, uint32_t exponent)
{
    unsigned long long place = atomicAdd((unsigned long long *)packed->count, 1ull);
    if (place < room)
        packed->list[place] = index << 8 | exponent;
}

/* The planes of a lane's eight elements begin where a whole word of each does, and are padded up to one. */
__device__ static void pack_lane(const eight *elements, unsigned count, uint64_t first, const rp_pack_part *part,
                                 const rp_packed *packed, uint32_t base)
{
    uint32_t rest[2] = {0, 0}, codes = 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t element = element_of(elements, i), code = rp_pack_code(element, base);
        rest[i / 4] |= rp_pack_rest(element) << (i % 4 * 8);
        codes |= code << (i * 4);
        if (code == RP_PACK_OTHER)
            list_exception(packed, part->room, first + i, rp_pack_exponent(element));
    }
    if (count == 0)
        return;
    __stcs((uint2 *)(packed->rest + first), make_uint2(rest[0], rest[1]));
    __stcs((unsigned int *)(packed->codes + first / 2), codes);
}

/* What a lane has of a packed part. */
struct packed_lane {
    uint32_t rest[2], codes, base;
};

__device__ static packed_lane load_packed(const rp_packed *packed, uint64_t first, unsigned count)
{
    packed_lane lane = {{0, 0}, 0, 0};
    if (count == 0)
        return lane;
    uint2 rest = __ldcs((const uint2 *)(packed->rest + first));
    lane.rest[0] = rest.x;
    lane.rest[1] = rest.y;
    lane.codes = __ldcs((const unsigned int *)(packed->codes + first / 2));
    lane.base = packed->bases[first / RP_PACK_BLOCK];
    return lane;
}

__device__ static uint32_t rest_of(const packed_lane *lane, unsigned i)
{
    return lane->rest[i / 4] >> (i % 4 * 8) & 0xffu;
}

__device__ static uint32_t code_of(const packed_lane *lane, unsigned i)
{
    return lane->codes >> (i * 4) & 0xfu;
}

/* The warps of the grid, and which of them this one is. */
__device__ static uint64_t warps()
{
    return (uint64_t)gridDim.x * (blockDim.x / WARP);
}

__device__ static uint64_t warp()
{
    return ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
}

extern "C" __global__ void __launch_bounds__(RP_PACK_THREADS)
    rp_pack(const void *from, uint64_t bytes, void *unit, uint32_t nranks)
{
    rp_pack_part part = rp_pack_part_of(bytes);
    for (uint64_t block = warp(); block < part.blocks * nranks; block += warps()) {
        uint32_t number = (uint32_t)(block / part.blocks);
        rp_packed packed = rp_packed_at(unit, bytes, nranks, number);
        uint64_t first = block % part.blocks * RP_PACK_BLOCK + threadIdx.x % WARP * LANE_ELEMENTS;
        unsigned count = lane_count(part.elements, first);
        const uint16_t *elements_from = (const uint16_t *)((const unsigned char *)from + bytes * number) + first;
        eight elements = load_elements(elements_from, count);
        uint32_t base = warp_base(&elements, count);
        if (threadIdx.x % WARP == 0)
            packed.bases[first / RP_PACK_BLOCK] = (unsigned char)base;
        pack_lane(&elements, count, first, &part, &packed, base);
    }
}

extern "C" __global__ void rp_pack_stamp(const void *unit, uint64_t bytes, uint32_t nranks, uint64_t *serial,
                                         uint64_t value, uint64_t *failed)
{
    bool fits = rp_packed_fits(unit, bytes, nranks);
    *serial = fits ? value : RP_SERIAL_NONE;
    if (!fits)
        *(volatile uint64_t *)failed = 1;
}

extern "C" __global__ void __launch_bounds__(RP_PACK_THREADS)
    rp_unpack(const void *unit, uint64_t bytes, uint32_t nranks, uint32_t first_part, uint32_t parts, void *to)
{
    rp_pack_part part = rp_pack_part_of(bytes);
    for (uint64_t block = warp(); block < part.blocks * parts; block += warps()) {
        uint32_t number = (uint32_t)(block / part.blocks);
        rp_packed packed = rp_packed_at((void *)unit, bytes, nranks, first_part + number);
        uint64_t first = block % part.blocks * RP_PACK_BLOCK + threadIdx.x % WARP * LANE_ELEMENTS;
        unsigned count = lane_count(part.elements, first);
        packed_lane lane = load_packed(&packed, first, count);
        eight elements = {{0, 0, 0, 0}};
        for (unsigned i = 0; i < count; i++)
            set_element(&elements, i, rp_pack_element(rest_of(&lane, i), rp_pack_decode(code_of(&lane, i), lane.base)));
        store_elements((uint16_t *)((unsigned char *)to + bytes * number) + first, &elements, count);
    }
}

/* Of a list, what this thread of the grid takes; of one that is too long, which nobody serves from, what is there. */
__device__ static uint64_t listed(const rp_packed *packed, const rp_pack_part *part)
{
    return *packed->count < part->room ? *packed->count : part->room;
}

__device__ static uint64_t thread()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static uint64_t threads()
{
    return (uint64_t)gridDim.x * blockDim.x;
}

extern "C" __global__ void __launch_bounds__(RP_PACK_THREADS)
    rp_unpack_list(const void *unit, uint64_t bytes, uint32_t nranks, uint32_t first_part, uint32_t parts, void *to)
{
    rp_pack_part part = rp_pack_part_of(bytes);
    for (uint32_t number = 0; number < parts; number++) {
        rp_packed packed = rp_packed_at((void *)unit, bytes, nranks, first_part + number);
        uint16_t *elements = (uint16_t *)((unsigned char *)to + bytes * number);
        for (uint64_t i = thread(); i < listed(&packed, &part); i += threads()) {
            uint64_t at = packed.list[i] >> 8;
            if (at < part.elements)
                elements[at] = (uint16_t)rp_pack_element(packed.rest[at], packed.list[i] & 0xffu);
        }
    }
}

__device__ static bool unlike_packed(const uint16_t *a, const rp_pack_part *part, const rp_packed *packed)
{
    bool unlike = false;
    for (uint64_t block = warp(); block < part->blocks; block += warps()) {
        uint64_t first = block * RP_PACK_BLOCK + threadIdx.x % WARP * LANE_ELEMENTS;
        unsigned count = lane_count(part->elements, first);
        eight elements = load_elements(a + first, count);
        packed_lane lane = load_packed(packed, first, count);
        for (unsigned i = 0; i < count; i++) {
            uint32_t element = element_of(&elements, i), code = code_of(&lane, i);
            unlike |= rp_pack_rest(element) != rest_of(&lane, i);
            unlike |= code != RP_PACK_OTHER && rp_pack_exponent(element) != rp_pack_decode(code, lane.base);
        }
    }
    return unlike;
}

__device__ static bool unlike_list(const uint16_t *a, const rp_pack_part *part, const rp_packed *packed)
{
    bool unlike = *packed->count > part->room;
    for (uint64_t i = thread(); i < listed(packed, part); i += threads()) {
        uint64_t at = packed->list[i] >> 8;
        unlike |= at >= part->elements || rp_pack_exponent(a[at]) != (packed->list[i] & 0xffu);
    }
    return unlike;
}

extern "C" __global__ void __launch_bounds__(RP_PACK_THREADS)
    rp_compare_packed(const void *a, const void *unit, uint64_t bytes, uint32_t nranks, uint32_t number,
                      const uint64_t *serial, uint64_t expected, rp_compare_state *state, rp_compare_entry *entry,
                      uint64_t tag)
{
    rp_pack_part part = rp_pack_part_of(bytes);
    rp_packed packed = rp_packed_at((void *)unit, bytes, nranks, number);
    bool unlike = *serial != expected; /* else the rest may be anybody's */
    if (!unlike)
        unlike = unlike_packed((const uint16_t *)a, &part, &packed) || unlike_list((const uint16_t *)a, &part, &packed);
    report_verdict(unlike, state, entry, *serial == expected, tag);
}
