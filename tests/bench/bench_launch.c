/*
 * What the hook adds to a kernel launch. Calls cudaLaunchKernel() as an application does (through the preload, if
 * there is one) and as if there were none (the runtime's own address), in turn, in batches with a pause between, as
 * launches come in a training step. Prints: calls, then median and 99th percentile of a batch's time per launch in ns,
 * bare and through the hook, and the difference.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"

#define BATCHES 4000
#define BATCH 64

typedef __typeof__(cudaLaunchKernel) *launch_function;

static double ns_per_tick(void)
{
    uint64_t ticks = rp_ticks(), ns = rp_monotonic_ns();
    while (rp_monotonic_ns() - ns < 50000000) {
    }
    return (double)(rp_monotonic_ns() - ns) / (double)(rp_ticks() - ticks);
}

static double batch(launch_function launch)
{
    dim3 grid = {132, 1, 1}, block = {256, 1, 1};
    uint64_t start = rp_ticks();
    for (uintptr_t i = 0; i < BATCH; i++)
        launch((const void *)(0x1000 + (i & 7) * 16), grid, block, NULL, 0, NULL);
    return (double)(rp_ticks() - start) / BATCH;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    static double bare[BATCHES], hooked[BATCHES];
    void *runtime = dlopen("libcudart.so.13", RTLD_NOLOAD | RTLD_LAZY);
    launch_function direct = runtime != NULL ? (launch_function)dlsym(runtime, "cudaLaunchKernel") : NULL;
    if (direct == NULL) {
        fprintf(stderr, "bench_launch: no libcudart.so.13 is loaded\n");
        return 1;
    }
    const struct timespec pause = {0, 50000};
    for (int i = 0; i < BATCHES; i++) {
        bare[i] = batch(direct);
        hooked[i] = batch(cudaLaunchKernel);
        nanosleep(&pause, NULL);
    }
    double scale = ns_per_tick();
    qsort(bare, BATCHES, sizeof bare[0], compare);
    qsort(hooked, BATCHES, sizeof hooked[0], compare);
    int p99 = BATCHES * 99 / 100;
    printf("%8d %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f\n", BATCHES * BATCH, bare[BATCHES / 2] * scale, bare[p99] * scale,
           hooked[BATCHES / 2] * scale, hooked[p99] * scale, (hooked[BATCHES / 2] - bare[BATCHES / 2]) * scale,
           (hooked[p99] - bare[p99]) * scale);
    return 0;
}
