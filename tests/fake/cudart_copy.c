/*
 * The runtime's copies and fills. The names with _ptds are the blocking ones of programs compiled for per-thread
 * default streams.
 */
#include "cudart_private.h"

/* The two names of a blocking call: it works on the default stream. */
#define BLOCKING_ENTRY(name, body, parameters, arguments) \
    __typeof__(name) name##_ptds;                         \
    cudaError_t name parameters                           \
    {                                                     \
        FAKE_ENTER();                                     \
        cudaStream_t stream = cudaStreamLegacy;           \
        return fake_report(body arguments);               \
    }                                                     \
    cudaError_t name##_ptds parameters                    \
    {                                                     \
        FAKE_ENTER();                                     \
        cudaStream_t stream = cudaStreamPerThread;        \
        return fake_report(body arguments);               \
    }

static cudaError_t copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                        bool blocking)
{
    return fake_copy(&(struct fake_copy){to, from, bytes, 1, bytes, bytes}, kind, stream, blocking);
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                           enum cudaMemcpyKind kind, cudaStream_t stream, bool blocking)
{
    if (width > to_pitch || width > from_pitch)
        return cudaErrorInvalidPitchValue;
    return fake_copy(&(struct fake_copy){to, from, width, rows, to_pitch, from_pitch}, kind, stream, blocking);
}

BLOCKING_ENTRY(cudaMemcpy, copy, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
               (to, from, bytes, kind, stream, true))
BLOCKING_ENTRY(cudaMemcpy2D, copy_2d,
               (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                enum cudaMemcpyKind kind),
               (to, to_pitch, from, from_pitch, width, rows, kind, stream, true))
FAKE_STREAM_ENTRY(cudaMemcpyAsync, copy,
                  (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
                  (to, from, bytes, kind, stream, false))
FAKE_STREAM_ENTRY(cudaMemcpy2DAsync, copy_2d,
                  (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                   enum cudaMemcpyKind kind, cudaStream_t stream),
                  (to, to_pitch, from, from_pitch, width, rows, kind, stream, false))

BLOCKING_ENTRY(cudaMemset, fake_fill, (void *to, int value, size_t bytes), (to, bytes, value, bytes, 1, stream))
BLOCKING_ENTRY(cudaMemset2D, fake_fill, (void *to, size_t pitch, int value, size_t width, size_t rows),
               (to, pitch, value, width, rows, stream))
FAKE_STREAM_ENTRY(cudaMemsetAsync, fake_fill, (void *to, int value, size_t bytes, cudaStream_t stream),
                  (to, bytes, value, bytes, 1, stream))
FAKE_STREAM_ENTRY(cudaMemset2DAsync, fake_fill,
                  (void *to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream),
                  (to, pitch, value, width, rows, stream))

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    FAKE_ENTER();
    (void)to_device, (void)from_device;
    return fake_report(copy(to, from, bytes, cudaMemcpyDefault, cudaStreamLegacy, true));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    FAKE_ENTER();
    (void)to_device, (void)from_device;
    return fake_report(copy(to, from, bytes, cudaMemcpyDefault, stream, false));
}

/* Variables of the device live in their host shadow: the symbol is the address, and the direction says nothing. */
static cudaError_t to_symbol(const void *symbol, size_t offset, const void *from, size_t bytes,
                             enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    return copy((char *)(uintptr_t)symbol + offset, from, bytes, cudaMemcpyDefault, stream, true);
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t offset, size_t bytes, enum cudaMemcpyKind kind,
                               cudaStream_t stream)
{
    (void)kind;
    return copy(to, (const char *)symbol + offset, bytes, cudaMemcpyDefault, stream, true);
}

BLOCKING_ENTRY(cudaMemcpyToSymbol, to_symbol,
               (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
               (symbol, offset, from, bytes, kind, stream))
BLOCKING_ENTRY(cudaMemcpyFromSymbol, from_symbol,
               (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
               (to, symbol, offset, bytes, kind, stream))

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    FAKE_ENTER();
    if (!address || !symbol)
        return fake_report(cudaErrorInvalidValue);
    *address = (void *)(uintptr_t)symbol;
    return cudaSuccess;
}
