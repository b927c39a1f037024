#ifndef RP_KERNELS_IMAGE_H
#define RP_KERNELS_IMAGE_H

/* A fat binary for cuModuleLoadData(). */
extern const unsigned char rp_kernels_image[];

#endif
