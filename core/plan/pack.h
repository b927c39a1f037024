/*
 * The packed form of a gathered unit of bfloat16 elements, which takes about three quarters of its bytes and gives back
 * every bit. Weights of a block have few exponents, so an element's exponent is a code of 4 bits, relative to its
 * block's base:
 *
 *     code 0 to 13   the block's base less the code
 *     code 14        exponent 0: zeros and the smallest numbers
 *     code 15        any other: the exponent is in the part's list of exceptions
 *
 * The base is the largest finite exponent, or, where that leaves many exceptions, as one number far above the others
 * does, whichever of the next ones down leaves the fewest.
 *
 * A part of n elements in blocks of RP_PACK_BLOCK, each plane from a multiple of 16 on:
 *
 *     rest    n bytes      sign and mantissa of an element
 *     codes   n/2          two a byte, that of the even element low
 *     bases   a byte a block
 *     list    8 bytes an exception: index << 8 | exponent, in any order
 *
 * A unit: for each rank a count of exceptions (8 bytes each, up to a multiple of 256 in all), then the parts in rank
 * order. A part with more exceptions than its list has room for can't be packed.
 *
 * Threads: pure. Included by C, C++ and CUDA C.
 */
#ifndef RP_PACK_H
#define RP_PACK_H

#include <stdint.h>

#ifdef __CUDACC__
#define RP_PACK_BOTH __host__ __device__ static inline
#else
#define RP_PACK_BOTH static inline
#endif

#define RP_PACK_BLOCK 256u
/* So many bases are tried at most, while one leaves more exceptions than MANY. */
#define RP_PACK_BASES 8u
#define RP_PACK_MANY 8u
#define RP_PACK_ZERO 14u
#define RP_PACK_OTHER 15u

/* Byte offsets in a packed part. */
struct rp_pack_part {
    uint64_t elements, blocks;
    uint64_t codes, bases, list;
    uint64_t room;  /* of the list, in exceptions */
    uint64_t bytes; /* of the part */
};

RP_PACK_BOTH uint64_t rp_pack_round(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* `bytes`: of one rank's part as it is, even, below 2^48. */
RP_PACK_BOTH struct rp_pack_part rp_pack_part_of(uint64_t bytes)
{
    struct rp_pack_part part;
    part.elements = bytes / 2;
    part.blocks = rp_pack_round(part.elements, RP_PACK_BLOCK) / RP_PACK_BLOCK;
    part.codes = rp_pack_round(part.elements, 16);
    part.bases = part.codes + rp_pack_round((part.elements + 1) / 2, 16);
    part.list = part.bases + rp_pack_round(part.blocks, 16);
    part.room = part.elements / 512 + 16;
    part.bytes = rp_pack_round(part.list + part.room * 8, 16);
    return part;
}

/* Where the parts begin in a packed unit. */
RP_PACK_BOTH uint64_t rp_pack_parts(uint32_t nranks)
{
    return rp_pack_round(8 * (uint64_t)nranks, 256);
}

/* Bytes of a packed unit; UINT64_MAX: a part of so many bytes has no packed form. */
RP_PACK_BOTH uint64_t rp_pack_unit(uint64_t bytes, uint32_t nranks)
{
    if (bytes == 0 || bytes % 2 != 0 || bytes >= UINT64_C(1) << 40 || nranks >= 1u << 20)
        return UINT64_MAX;
    return rp_pack_parts(nranks) + rp_pack_part_of(bytes).bytes * nranks;
}

/* ---------------------------------------------------------------- elements */

RP_PACK_BOTH uint32_t rp_pack_exponent(uint32_t element)
{
    return element >> 7 & 0xffu;
}

RP_PACK_BOTH uint32_t rp_pack_rest(uint32_t element)
{
    return (element >> 8 & 0x80u) | (element & 0x7fu);
}

/* The largest exponent below `below` of a block, with one more element; 0 to begin with. */
RP_PACK_BOTH uint32_t rp_pack_base_with(uint32_t base, uint32_t element, uint32_t below)
{
    uint32_t exponent = rp_pack_exponent(element);
    return exponent > base && exponent < below ? exponent : base;
}

RP_PACK_BOTH uint32_t rp_pack_code(uint32_t element, uint32_t base)
{
    uint32_t exponent = rp_pack_exponent(element);
    if (exponent <= base && base - exponent < RP_PACK_ZERO)
        return base - exponent;
    return exponent == 0 ? RP_PACK_ZERO : RP_PACK_OTHER;
}

/* The exponent; of RP_PACK_OTHER any, to be put right from the list. */
RP_PACK_BOTH uint32_t rp_pack_decode(uint32_t code, uint32_t base)
{
    return code < RP_PACK_ZERO ? (base - code) & 0xffu : 0;
}

RP_PACK_BOTH uint32_t rp_pack_element(uint32_t rest, uint32_t exponent)
{
    return (rest & 0x80u) << 8 | exponent << 7 | (rest & 0x7fu);
}

#endif
