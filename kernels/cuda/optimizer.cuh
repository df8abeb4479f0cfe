/* One optimizer step: each parameter is read and written once, its gradient made on the spot or
   read where it was formed. Nothing changes when loss or gradient is not finite. */
#ifndef RUNNEL_CUDA_OPTIMIZER_CUH
#define RUNNEL_CUDA_OPTIMIZER_CUH

#include "gradient.cuh"

/* `partials`: how many partial sums the gradient left. The optimizer's numbers stand in
   network.state since launch_loss. */
cudaError_t launch_optimizer(const struct network *n, const struct gradient_plan *plan,
                             uint32_t length, uint32_t partials, cudaStream_t stream);

#endif
