/* Plays launches a second time, by the functional mode of a GPU simulator, which runs nvcc's PTX of
   the same kernels, from the same memory. Both results are compared, and the simulator's are kept:
   so the engine learns only from the compiled kernels, and differences do not accumulate. Copies
   and streams are this runtime's.

   The simulator is GPGPU-Sim's libcudart.so (HOSTCUDA_SIMULATOR), in the directory of its
   gpgpusim.config; the kernels are those of one PTX file (HOSTCUDA_PTX), found by their names.
   Its memory has the same addresses, so that pointers are valid in both.
   tools/figures/gpu-simulate prepares all this, and reads the reports: one line of JSON per
   launch, appended to the file HOSTCUDA_SIMULATED. */
#ifndef HOSTCUDA_SIMULATE_H
#define HOSTCUDA_SIMULATE_H

#include "hostcuda.h"

namespace hostcuda {
namespace simulate {

/* Runs it in both. An error if it cannot run; differences are only reported. */
cudaError_t play(const launch &work);

/* A store of a kernel compiled for race.h: one of 8 bytes is treated as a double, and one of
   many bytes may contain doubles. All other memory is treated as floats and integers. */
void wrote(const void *at, size_t size);

} // namespace simulate
} // namespace hostcuda

#endif
