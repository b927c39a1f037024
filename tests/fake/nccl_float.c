/*
 * Small floating-point types: a sign, exponent and mantissa bits. Encoding rounds to nearest even. All but e4m3 have
 * infinities; e4m3 (4 exponent, 3 mantissa bits) uses its largest code as NaN only and saturates, as the hardware's
 * conversions do in NCCL's reductions.
 */
#include "nccl_private.h"

#include <math.h>

static bool finite_only(int exponent_bits, int mantissa_bits)
{
    return exponent_bits == 4 && mantissa_bits == 3;
}

float float_from_bits(uint32_t bits, int exponent_bits, int mantissa_bits)
{
    uint32_t mantissa_mask = (1u << mantissa_bits) - 1, exponent_mask = (1u << exponent_bits) - 1;
    uint32_t mantissa = bits & mantissa_mask;
    int exponent = (int)(bits >> mantissa_bits & exponent_mask);
    int bias = (int)(exponent_mask >> 1);
    float sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0f : 1.0f;
    if (exponent == (int)exponent_mask && finite_only(exponent_bits, mantissa_bits) && mantissa == mantissa_mask)
        return sign * NAN;
    if (exponent == (int)exponent_mask && !finite_only(exponent_bits, mantissa_bits))
        return sign * (mantissa ? NAN : INFINITY);
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, 1 - bias - mantissa_bits);
    return sign * ldexpf((float)(mantissa | 1u << mantissa_bits), exponent - bias - mantissa_bits);
}

/* Code of the largest finite value. */
static uint32_t largest(int exponent_bits, int mantissa_bits)
{
    uint32_t all = (1u << (exponent_bits + mantissa_bits)) - 1;
    return finite_only(exponent_bits, mantissa_bits) ? all - 1 : all - (1u << mantissa_bits);
}

static uint32_t magnitude_bits(float magnitude, int exponent_bits, int mantissa_bits)
{
    uint32_t all = (1u << (exponent_bits + mantissa_bits)) - 1;
    uint32_t most = largest(exponent_bits, mantissa_bits);
    if (isnan(magnitude))
        return all;
    uint32_t beyond = finite_only(exponent_bits, mantissa_bits) ? most : most + 1; /* infinity */
    if (isinf(magnitude))
        return beyond;
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = magnitude > 0 ? ilogbf(magnitude) : 1 - bias;
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    /* Exact in double; codes follow one another across exponents, so a carry needs no care. */
    double units = nearbyint(ldexp((double)magnitude, mantissa_bits - exponent));
    double code = units + (double)((exponent + bias - 1) * (1 << mantissa_bits));
    return code > (double)most ? beyond : (uint32_t)code;
}

uint32_t float_to_bits(float value, int exponent_bits, int mantissa_bits)
{
    uint32_t sign = signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
    return sign | magnitude_bits(fabsf(value), exponent_bits, mantissa_bits);
}
