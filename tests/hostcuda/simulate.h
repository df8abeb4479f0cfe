/* Launches, played a second time: by the functional mode of a simulator of GPUs, which runs the PTX
   that nvcc has made of the same kernels, from the same memory. What both leave there is compared,
   and what the simulator has left stays: so the engine learns from the compiled kernels alone, and
   no difference adds up in the comparison. Copies, streams, graphs and cuBLAS are this runtime's.

   The simulator is GPGPU-Sim's libcudart.so (HOSTCUDA_SIMULATOR), in the directory of its
   gpgpusim.config; the kernels are those of one PTX file (HOSTCUDA_PTX), found by their names. Its
   memory has the addresses of this runtime's, so that pointers mean the same in both.
   tools/figures/gpu-simulate prepares all that, and reads what is told: a line of JSON a launch, at
   the end of the file HOSTCUDA_SIMULATED. */
#ifndef HOSTCUDA_SIMULATE_H
#define HOSTCUDA_SIMULATE_H

#include "hostcuda.h"

namespace hostcuda {
namespace simulate {

/* Run it here and there. An error when it cannot be; a difference is told, and none. */
cudaError_t play(const launch &work);

/* A store of a kernel that was compiled for race.h: one of 8 bytes is a double, or as good as one,
   and one of many bytes may be of them. All else is taken for floats and whole numbers. */
void wrote(const void *at, size_t size);

} // namespace simulate
} // namespace hostcuda

#endif
