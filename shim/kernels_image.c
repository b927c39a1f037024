/* The fat binary of kernels.cu as data: the linker's own inclusion, so the library needs no CUDA runtime to load. */
#include "shim/kernels_image.h"

__asm__(".section .rodata\n"
        ".balign 16\n"
        ".global rp_kernels_image\n"
        ".hidden rp_kernels_image\n"
        "rp_kernels_image:\n"
        ".incbin \"" RP_KERNELS_FATBIN "\"\n"
        ".balign 16\n"
        ".quad 0\n"
        ".previous\n");
