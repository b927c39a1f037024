/*
 * The kernels of packed slots (core/plan/pack.h has the form): a gathered unit packed, its parts unpacked, a shard
 * compared with a packed part. Names, parameters, and the same on the host (the stand-in runtime and tests). Included
 * by C, C++ and CUDA C.
 *
 * Elements are bits: nothing is rounded, a NaN equals its own bits.
 *
 * RP_PACK_KERNEL: the parts of a unit; the unit's counts are zero before.
 *   const void *from    the parts as they are, one behind the other
 *   uint64_t bytes      of one part
 *   void *unit          packed
 *   uint32_t nranks
 * RP_PACK_STAMP_KERNEL, behind it, one thread: *serial = value if each count fits its list, else RP_SERIAL_NONE and
 * *failed = 1 (device address of pinned memory).
 *   const void *unit, uint64_t bytes, uint32_t nranks, uint64_t *serial, uint64_t value, uint64_t *failed
 * RP_UNPACK_KERNEL: parts [first, first + count), all but their exceptions; RP_UNPACK_LIST_KERNEL, behind it: those.
 *   const void *unit, uint64_t bytes, uint32_t nranks, uint32_t first, uint32_t count
 *   void *to            where part `first` goes
 * RP_COMPARE_PACKED_KERNEL: as RP_COMPARE_KERNEL, with a part of a packed unit in place of `b`.
 *   const void *a, const void *unit, uint64_t bytes, uint32_t nranks, uint32_t part, const uint64_t *serial,
 *   uint64_t expected, struct rp_compare_state *state, struct rp_compare_entry *entry, uint64_t tag
 *
 * One-dimensional grids of any size, RP_PACK_THREADS threads a block. `from`, `to` and `a` have any alignment that
 * their elements have.
 */
#ifndef RP_SHIM_PACK_H
#define RP_SHIM_PACK_H

#include "core/plan/pack.h"
#include "shim/compare.h"

#define RP_PACK_KERNEL "rp_pack"
#define RP_PACK_STAMP_KERNEL "rp_pack_stamp"
#define RP_UNPACK_KERNEL "rp_unpack"
#define RP_UNPACK_LIST_KERNEL "rp_unpack_list"
#define RP_COMPARE_PACKED_KERNEL "rp_compare_packed"
#define RP_PACK_THREADS 256

/* A part of a packed unit as its planes. */
struct rp_packed {
    unsigned char *rest, *codes, *bases;
    uint64_t *list, *count;
};

RP_PACK_BOTH struct rp_packed rp_packed_at(void *unit, uint64_t bytes, uint32_t nranks, uint32_t number)
{
    struct rp_pack_part part = rp_pack_part_of(bytes);
    unsigned char *start = (unsigned char *)unit + rp_pack_parts(nranks) + part.bytes * number;
    struct rp_packed packed;
    packed.rest = start;
    packed.codes = start + part.codes;
    packed.bases = start + part.bases;
    packed.list = (uint64_t *)(void *)(start + part.list);
    packed.count = (uint64_t *)unit + number;
    return packed;
}

/* True if every part's exceptions are in its list. */
RP_PACK_BOTH int rp_packed_fits(const void *unit, uint64_t bytes, uint32_t nranks)
{
    uint64_t room = rp_pack_part_of(bytes).room;
    for (uint32_t i = 0; i < nranks; i++) {
        if (((const uint64_t *)unit)[i] > room)
            return 0;
    }
    return 1;
}

#ifndef __CUDACC__

static inline uint32_t rp_pack_load(const void *from, uint64_t index)
{
    uint16_t element;
    memcpy(&element, (const unsigned char *)from + index * 2, 2);
    return element;
}

/* The largest exponent below `below`. */
static inline uint32_t rp_pack_largest(const void *from, uint64_t first, uint64_t end, uint32_t below)
{
    uint32_t base = 0;
    for (uint64_t i = first; i < end; i++)
        base = rp_pack_base_with(base, rp_pack_load(from, i), below);
    return base;
}

static inline uint32_t rp_pack_exceptions(const void *from, uint64_t first, uint64_t end, uint32_t base)
{
    uint32_t count = 0;
    for (uint64_t i = first; i < end; i++)
        count += rp_pack_code(rp_pack_load(from, i), base) == RP_PACK_OTHER;
    return count;
}

static inline uint32_t rp_pack_base(const void *from, uint64_t first, uint64_t end)
{
    uint32_t best = rp_pack_largest(from, first, end, 0xff), base = best;
    uint32_t fewest = rp_pack_exceptions(from, first, end, best);
    for (uint32_t tries = 1; tries < RP_PACK_BASES && fewest > RP_PACK_MANY && base > 0; tries++) {
        base = rp_pack_largest(from, first, end, base);
        uint32_t count = rp_pack_exceptions(from, first, end, base);
        best = count < fewest ? base : best;
        fewest = count < fewest ? count : fewest;
    }
    return best;
}

static inline uint32_t rp_packed_code(const struct rp_packed *packed, uint64_t index)
{
    return packed->codes[index / 2] >> (index % 2 * 4) & 0xfu;
}

static inline void rp_pack_host_part(const void *from, const struct rp_pack_part *part, const struct rp_packed *packed)
{
    uint32_t base = 0;
    for (uint64_t i = 0; i < part->elements; i++) {
        if (i % RP_PACK_BLOCK == 0) {
            uint64_t end = i + RP_PACK_BLOCK;
            base = rp_pack_base(from, i, end < part->elements ? end : part->elements);
            packed->bases[i / RP_PACK_BLOCK] = (unsigned char)base;
        }
        uint32_t element = rp_pack_load(from, i), code = rp_pack_code(element, base);
        packed->rest[i] = (unsigned char)rp_pack_rest(element);
        if (i % 2 == 0)
            packed->codes[i / 2] = (unsigned char)code;
        else
            packed->codes[i / 2] |= (unsigned char)(code << 4);
        if (code == RP_PACK_OTHER && (*packed->count)++ < part->room)
            packed->list[*packed->count - 1] = i << 8 | rp_pack_exponent(element);
    }
}

static inline void rp_pack_host(const void *from, uint64_t bytes, void *unit, uint32_t nranks)
{
    struct rp_pack_part part = rp_pack_part_of(bytes);
    for (uint32_t i = 0; i < nranks; i++) {
        struct rp_packed packed = rp_packed_at(unit, bytes, nranks, i);
        rp_pack_host_part((const unsigned char *)from + bytes * i, &part, &packed);
    }
}

/* All but the exceptions, or these alone. */
static inline void rp_unpack_host(const void *unit, uint64_t bytes, uint32_t nranks, uint32_t first, uint32_t count,
                                  void *to, int list)
{
    struct rp_pack_part part = rp_pack_part_of(bytes);
    for (uint32_t number = first; number < first + count; number++) {
        struct rp_packed packed = rp_packed_at((void *)(uintptr_t)unit, bytes, nranks, number);
        unsigned char *out = (unsigned char *)to + bytes * (number - first);
        uint64_t many = !list ? part.elements : *packed.count < part.room ? *packed.count : part.room;
        for (uint64_t i = 0; i < many; i++) {
            uint64_t at = list ? packed.list[i] >> 8 : i;
            uint32_t exponent = list ? (uint32_t)(packed.list[i] & 0xffu)
                                     : rp_pack_decode(rp_packed_code(&packed, at), packed.bases[at / RP_PACK_BLOCK]);
            uint16_t element = (uint16_t)rp_pack_element(packed.rest[at], exponent);
            if (at < part.elements)
                memcpy(out + at * 2, &element, 2);
        }
    }
}

/* 1 if equal. */
static inline int rp_compare_packed_host(const void *a, const void *unit, uint64_t bytes, uint32_t nranks,
                                         uint32_t number, uint64_t serial, uint64_t expected)
{
    struct rp_pack_part part = rp_pack_part_of(bytes);
    struct rp_packed packed = rp_packed_at((void *)(uintptr_t)unit, bytes, nranks, number);
    if (serial != expected || *packed.count > part.room)
        return 0;
    for (uint64_t i = 0; i < part.elements; i++) {
        uint32_t element = rp_pack_load(a, i), code = rp_packed_code(&packed, i);
        if (rp_pack_rest(element) != packed.rest[i])
            return 0;
        if (code != RP_PACK_OTHER && rp_pack_exponent(element) != rp_pack_decode(code, packed.bases[i / RP_PACK_BLOCK]))
            return 0;
    }
    for (uint64_t i = 0; i < *packed.count; i++) {
        uint64_t at = packed.list[i] >> 8;
        if (at >= part.elements || rp_pack_exponent(rp_pack_load(a, at)) != (packed.list[i] & 0xffu))
            return 0;
    }
    return 1;
}

#endif
#endif
