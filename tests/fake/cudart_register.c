/*
 * The kernels of loaded programs. nvcc's constructors register a stub address and a name for each kernel; a launch
 * names the stub, or the handle that __cudaGetKernel made of it (here both lead to the same entry). The twin is
 * looked up at the first launch: the program's functions may be loaded after its kernels are registered.
 *
 * `lock` guards the list. Entries stay until the program unregisters them, at its exit.
 */
#include "cudart_private.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

struct CUkern_st {
    struct CUkern_st *next;
    void **binary;
    const void *stub;
    char *name;
    bool searched;
    struct fake_twin twin;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUkern_st *kernels;

void **__cudaRegisterFatBinary(void *fat_binary)
{
    void **handle = calloc(1, sizeof *handle);
    if (handle)
        *handle = fat_binary;
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    pthread_mutex_lock(&lock);
    for (struct CUkern_st **link = &kernels; *link;) {
        struct CUkern_st *kernel = *link;
        if (kernel->binary != handle) {
            link = &kernel->next;
            continue;
        }
        *link = kernel->next;
        free(kernel->name);
        free(kernel);
    }
    pthread_mutex_unlock(&lock);
    free(handle);
}

void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *name,
                            int thread_limit, uint3 *thread, uint3 *block, dim3 *block_shape, dim3 *grid_shape,
                            int *warp_size)
{
    (void)device_function, (void)thread_limit, (void)thread, (void)block, (void)block_shape, (void)grid_shape;
    (void)warp_size;
    struct CUkern_st *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return;
    kernel->binary = handle;
    kernel->stub = host_function;
    kernel->name = strdup(name);
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

/* Variables of the device live in their host shadow, which the twins use. */
void __cudaRegisterVar(void **handle, char *host_var, char *device_address, const char *name, int external, size_t size,
                       int constant, int global)
{
    (void)handle, (void)host_var, (void)device_address, (void)name, (void)external, (void)size, (void)constant;
    (void)global;
}

void __cudaRegisterManagedVar(void **handle, void **host_var, char *device_address, const char *name, int external,
                              size_t size, int constant, int global)
{
    (void)handle, (void)host_var, (void)device_address, (void)name, (void)external, (void)size, (void)constant;
    (void)global;
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

/* In the whole program, else in the object that holds the stub: it may be loaded privately. */
static void *symbol_of(const struct CUkern_st *kernel, const char *suffix)
{
    char symbol[512];
    if (snprintf(symbol, sizeof symbol, "%s%s", kernel->name, suffix) >= (int)sizeof symbol)
        return NULL;
    void *address = dlsym(RTLD_DEFAULT, symbol);
    Dl_info info;
    if (address || !dladdr(kernel->stub, &info))
        return address;
    void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!object)
        return NULL;
    address = dlsym(object, symbol);
    dlclose(object);
    return address;
}

static void twin_search(struct CUkern_st *kernel)
{
    kernel->searched = true;
    *(void **)&kernel->twin.run = symbol_of(kernel, "_host");
    *(void **)&kernel->twin.cost_us = symbol_of(kernel, "_cost_us");
    kernel->twin.arg_sizes = symbol_of(kernel, "_arg_sizes");
    if (!kernel->twin.run || !kernel->twin.arg_sizes) {
        fake_say("kernel %s has no host twin: it needs %s_host and %s_arg_sizes, linked with -rdynamic", kernel->name,
                 kernel->name, kernel->name);
        kernel->twin.run = NULL;
    }
}

static struct CUkern_st *find(const void *function)
{
    struct CUkern_st *kernel = kernels;
    while (kernel && kernel->stub != function && kernel != function)
        kernel = kernel->next;
    return kernel;
}

const struct fake_twin *fake_kernel_twin(const void *function)
{
    pthread_mutex_lock(&lock);
    struct CUkern_st *kernel = find(function);
    if (kernel && !kernel->searched)
        twin_search(kernel);
    pthread_mutex_unlock(&lock);
    return kernel && kernel->twin.run ? &kernel->twin : NULL;
}

const char *fake_kernel_name(const void *function)
{
    pthread_mutex_lock(&lock);
    struct CUkern_st *kernel = find(function);
    pthread_mutex_unlock(&lock);
    return kernel ? kernel->name : NULL;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel_out, const void *host_function)
{
    pthread_mutex_lock(&lock);
    struct CUkern_st *kernel = find(host_function);
    pthread_mutex_unlock(&lock);
    if (!kernel)
        return fake_report(cudaErrorInvalidDeviceFunction);
    *kernel_out = kernel;
    return cudaSuccess;
}
