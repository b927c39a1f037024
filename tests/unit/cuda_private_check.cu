/*
 * Compiled only: nvcc declares these functions itself for the code it generates, so a prototype of ours that differs
 * does not build. The kernel makes it generate such code.
 */
#include "shim/cuda_private.h"

__global__ void kernel(int *to)
{
    *to = 1;
}

void launch(int *to);

void launch(int *to)
{
    kernel<<<1, 1>>>(to);
}
