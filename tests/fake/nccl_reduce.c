/*
 * Types and reductions. Elements of all ranks are combined in rank order, small floating-point types in float with
 * one rounding at the end, so that the result is the same on every run.
 */
#include "nccl_private.h"

#include <math.h>
#include <string.h>

size_t datatype_bytes(ncclDataType_t datatype)
{
    static const unsigned char bytes[ncclNumTypes] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,    [ncclInt32] = 4,      [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,   [ncclFloat16] = 2,    [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1,
    };
    return bytes[datatype];
}

static float from_bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if (isnan(value))
        return (uint16_t)(word >> 16 | 0x40);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

#define SAME(x) (x)
#define FROM_F16(x) float_from_bits(x, 5, 10)
#define TO_F16(x) ((uint16_t)float_to_bits(x, 5, 10))
#define FROM_E4M3(x) float_from_bits(x, 4, 3)
#define TO_E4M3(x) ((uint8_t)float_to_bits(x, 4, 3))
#define FROM_E5M2(x) float_from_bits(x, 5, 2)
#define TO_E5M2(x) ((uint8_t)float_to_bits(x, 5, 2))

/* Sums and products of integers wrap. */
#define PLUS_INTEGER(T, a, b) ((T)((uint64_t)(a) + (uint64_t)(b)))
#define TIMES_INTEGER(T, a, b) ((T)((uint64_t)(a) * (uint64_t)(b)))
#define PLUS_FLOAT(T, a, b) ((a) + (b))
#define TIMES_FLOAT(T, a, b) ((a) * (b))

/* name: of the type; S: as stored; T: as computed. */
#define TYPE(name, S, T, FROM, TO, PLUS, TIMES)                                                        \
    static T name##_combine(T a, T b, ncclRedOp_t op)                                                  \
    {                                                                                                  \
        switch ((int)op) {                                                                             \
        case ncclProd:                                                                                 \
            return TIMES(T, a, b);                                                                     \
        case ncclMax:                                                                                  \
            return a > b ? a : b;                                                                      \
        case ncclMin:                                                                                  \
            return a < b ? a : b;                                                                      \
        default:                                                                                       \
            return PLUS(T, a, b);                                                                      \
        }                                                                                              \
    }                                                                                                  \
    static void name##_run(void *to, const void *const *from, int ranks, size_t count, ncclRedOp_t op) \
    {                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                           \
            T value = FROM(((const S *)from[0])[i]);                                                   \
            for (int rank = 1; rank < ranks; rank++)                                                   \
                value = name##_combine(value, FROM(((const S *)from[rank])[i]), op);                   \
            if (op == ncclAvg)                                                                         \
                value = (T)(value / (T)ranks);                                                         \
            ((S *)to)[i] = TO(value);                                                                  \
        }                                                                                              \
    }                                                                                                  \
    static void name##_scale(void *to, const void *from, size_t count, const void *scalar)             \
    {                                                                                                  \
        T factor = FROM(*(const S *)scalar);                                                           \
        for (size_t i = 0; i < count; i++) {                                                           \
            T value = FROM(((const S *)from)[i]);                                                      \
            ((S *)to)[i] = TO(TIMES(T, value, factor));                                                \
        }                                                                                              \
    }

#define TYPES(X)                                                                   \
    X(ncclInt8, int8_t, int8_t, SAME, SAME, PLUS_INTEGER, TIMES_INTEGER)           \
    X(ncclUint8, uint8_t, uint8_t, SAME, SAME, PLUS_INTEGER, TIMES_INTEGER)        \
    X(ncclInt32, int32_t, int32_t, SAME, SAME, PLUS_INTEGER, TIMES_INTEGER)        \
    X(ncclUint32, uint32_t, uint32_t, SAME, SAME, PLUS_INTEGER, TIMES_INTEGER)     \
    X(ncclInt64, int64_t, int64_t, SAME, SAME, PLUS_INTEGER, TIMES_INTEGER)        \
    X(ncclUint64, uint64_t, uint64_t, SAME, SAME, PLUS_INTEGER, TIMES_INTEGER)     \
    X(ncclFloat16, uint16_t, float, FROM_F16, TO_F16, PLUS_FLOAT, TIMES_FLOAT)     \
    X(ncclFloat32, float, float, SAME, SAME, PLUS_FLOAT, TIMES_FLOAT)              \
    X(ncclFloat64, double, double, SAME, SAME, PLUS_FLOAT, TIMES_FLOAT)            \
    X(ncclBfloat16, uint16_t, float, from_bf16, to_bf16, PLUS_FLOAT, TIMES_FLOAT)  \
    X(ncclFloat8e4m3, uint8_t, float, FROM_E4M3, TO_E4M3, PLUS_FLOAT, TIMES_FLOAT) \
    X(ncclFloat8e5m2, uint8_t, float, FROM_E5M2, TO_E5M2, PLUS_FLOAT, TIMES_FLOAT)

TYPES(TYPE)

void reduce_run(void *to, const void *const *from, int ranks, size_t count, ncclDataType_t datatype, ncclRedOp_t op)
{
    switch ((int)datatype) {
#define CASE(name, S, T, FROM, TO, PLUS, TIMES) \
    case name:                                  \
        name##_run(to, from, ranks, count, op); \
        break;
        TYPES(CASE)
#undef CASE
    default:
        break;
    }
}

void reduce_scale(void *to, const void *from, size_t count, ncclDataType_t datatype, const void *scalar)
{
    switch ((int)datatype) {
#define CASE(name, S, T, FROM, TO, PLUS, TIMES) \
    case name:                                  \
        name##_scale(to, from, count, scalar);  \
        break;
        TYPES(CASE)
#undef CASE
    default:
        break;
    }
}
