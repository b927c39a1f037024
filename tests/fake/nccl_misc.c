/*
 * Version, errors, unique ids, memory, registration, and user reductions.
 */
#include "nccl_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[512];

ncclResult_t nccl_warn(ncclResult_t result, const char *format, ...)
{
    char line[sizeof last_error];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *debug = getenv("NCCL_DEBUG");
    if (debug && (strcmp(debug, "WARN") == 0 || strcmp(debug, "INFO") == 0))
        fake_say("%s", line);
    pthread_mutex_lock(&error_lock);
    memcpy(last_error, line, sizeof last_error);
    pthread_mutex_unlock(&error_lock);
    return result;
}

/* Valid until the thread's next call. */
const char *pncclGetLastError(ncclComm_t comm)
{
    static _Thread_local char copy[sizeof last_error];
    (void)comm;
    pthread_mutex_lock(&error_lock);
    memcpy(copy, last_error, sizeof copy);
    pthread_mutex_unlock(&error_lock);
    return copy;
}
NCCL_WEAK(GetLastError);

const char *pncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [ncclInternalError] = "internal error - please report this issue to the NCCL developers",
        [ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };
    return (int)result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}
NCCL_WEAK(GetErrorString);

ncclResult_t pncclGetVersion(int *version)
{
    if (!version)
        return nccl_warn(ncclInvalidArgument, "GetVersion: no place for it");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
NCCL_WEAK(GetVersion);

/* 16 bytes are random, the others zero, as with the real library over IPv4. NCCL_COMM_ID makes all ids equal. */
ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
    if (!id)
        return nccl_warn(ncclInvalidArgument, "GetUniqueId: no place for it");
    memset(id, 0, sizeof *id);
    const char *given = getenv("NCCL_COMM_ID");
    if (given && *given) {
        snprintf(id->internal, sizeof id->internal, "%s", given);
        return ncclSuccess;
    }
    if (getrandom(id->internal, 16, 0) != 16)
        return nccl_warn(ncclSystemError, "GetUniqueId: no random numbers");
    return ncclSuccess;
}
NCCL_WEAK(GetUniqueId);

void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

/* NCCL_DEBUG is looked up at every warning: nothing to read again. */
void pncclResetDebugInit(void)
{
}
void ncclResetDebugInit(void) __attribute__((weak, alias("pncclResetDebugInit")));

ncclResult_t pncclMemAlloc(void **pointer, size_t bytes)
{
    if (!pointer || bytes == 0)
        return nccl_warn(ncclInvalidArgument, "MemAlloc: %zu bytes", bytes);
    if (fake_enter() != cudaSuccess || fake_memory_allocate(pointer, bytes, FAKE_MEMORY_DEVICE) != cudaSuccess)
        return nccl_warn(ncclUnhandledCudaError, "MemAlloc: no memory");
    return ncclSuccess;
}
NCCL_WEAK(MemAlloc);

ncclResult_t pncclMemFree(void *pointer)
{
    return fake_memory_free(pointer, FAKE_MEMORY_DEVICE) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
NCCL_WEAK(MemFree);

/* Registrations change nothing here: they are remembered so that a wrong handle is found. */
struct registration {
    const struct ncclComm *comm;
    void *buffer;
};

static ncclResult_t registration_new(const struct ncclComm *comm, void *buffer, size_t bytes,
                                     struct registration **made_out)
{
    struct fake_memory memory;
    if (!buffer || bytes == 0 || !fake_memory_find(buffer, &memory))
        return nccl_warn(ncclInvalidArgument, "register: %p is not device memory", buffer);
    struct registration *made = malloc(sizeof *made);
    if (!made)
        return ncclSystemError;
    *made = (struct registration){comm, buffer};
    *made_out = made;
    return ncclSuccess;
}

static ncclResult_t registration_end(const struct ncclComm *comm, struct registration *registration)
{
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess || !registration)
        return result;
    if (registration->comm != comm)
        return nccl_warn(ncclInvalidArgument, "deregister: the handle is of another communicator");
    free(registration);
    return ncclSuccess;
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
    ncclResult_t result = comm_check_ready(comm);
    if (result != ncclSuccess || !handle)
        return result != ncclSuccess ? result : ncclInvalidArgument;
    struct registration *made = NULL;
    result = registration_new(comm, buffer, bytes, &made);
    *handle = made;
    return result;
}
NCCL_WEAK(CommRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return registration_end(comm, handle);
}
NCCL_WEAK(CommDeregister);

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags)
{
    ncclResult_t result = comm_check_ready(comm);
    if (result != ncclSuccess || !window)
        return result != ncclSuccess ? result : ncclInvalidArgument;
    if ((flags & ~NCCL_WIN_COLL_SYMMETRIC) || (uintptr_t)buffer % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
        return nccl_warn(ncclInvalidArgument, "window: flags %d, buffer %p", flags, buffer);
    struct registration *made = NULL;
    result = registration_new(comm, buffer, bytes, &made);
    *window = (ncclWindow_t)(void *)made;
    return result;
}
NCCL_WEAK(CommWindowRegister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    return registration_end(comm, (struct registration *)(void *)window);
}
NCCL_WEAK(CommWindowDeregister);

/* A handle is the index of the entry, past the built-in ones, mixed with the communicator's address: it differs
 * between ranks, as the real ones do. */
static int mixed(const struct ncclComm *comm, int value)
{
    uint64_t address = (uint64_t)(uintptr_t)comm;
    return value ^ (int)((address >> 6 ^ address >> 32) & 0x3fffff00);
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm)
{
    ncclResult_t result = comm_check_ready(comm);
    if (result != ncclSuccess)
        return result;
    if (!op || !scalar || (int)datatype < 0 || datatype >= ncclNumTypes)
        return nccl_warn(ncclInvalidArgument, "RedOpCreatePreMulSum: type %d", (int)datatype);
    struct user_op made = {.used = true, .datatype = datatype};
    if (residence == ncclScalarHostImmediate)
        memcpy(made.value, scalar, datatype_bytes(datatype));
    else
        made.device = scalar;
    pthread_mutex_lock(&comm->lock);
    int index = 0;
    while (index < NCCL_OPS_MAX && comm->ops[index].used)
        index++;
    if (index < NCCL_OPS_MAX)
        comm->ops[index] = made;
    pthread_mutex_unlock(&comm->lock);
    if (index == NCCL_OPS_MAX)
        return nccl_warn(ncclInternalError, "RedOpCreatePreMulSum: %d reductions in use", index);
    *op = (ncclRedOp_t)mixed(comm, index + ncclNumOps);
    return ncclSuccess;
}
NCCL_WEAK(RedOpCreatePreMulSum);

/* With the lock held; NULL if the handle is not one of the communicator's. */
static struct user_op *entry_of(struct ncclComm *comm, ncclRedOp_t op)
{
    int index = mixed(comm, (int)op) - ncclNumOps;
    return index >= 0 && index < NCCL_OPS_MAX && comm->ops[index].used ? &comm->ops[index] : NULL;
}

bool user_op_find(struct ncclComm *comm, ncclRedOp_t op, struct user_op *op_out)
{
    pthread_mutex_lock(&comm->lock);
    const struct user_op *entry = entry_of(comm, op);
    if (entry)
        *op_out = *entry;
    pthread_mutex_unlock(&comm->lock);
    return entry != NULL;
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = comm_check(comm);
    if (result != ncclSuccess)
        return result;
    if ((int)op >= 0 && op < ncclNumOps)
        return nccl_warn(ncclInvalidArgument, "RedOpDestroy: %d is built in", (int)op);
    pthread_mutex_lock(&comm->lock);
    struct user_op *entry = entry_of(comm, op);
    if (entry)
        entry->used = false;
    pthread_mutex_unlock(&comm->lock);
    return entry ? ncclSuccess : nccl_warn(ncclInvalidArgument, "RedOpDestroy: %d is unknown", (int)op);
}
NCCL_WEAK(RedOpDestroy);
