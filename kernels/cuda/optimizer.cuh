/* One optimizer step: reads and writes each parameter once; its gradient is computed in place,
   or read if it was formed. Nothing changes if loss or gradient is not finite. */
#ifndef RUNNEL_CUDA_OPTIMIZER_CUH
#define RUNNEL_CUDA_OPTIMIZER_CUH

#include "gradient.cuh"

/* `partials`: number of the gradient's partial sums. launch_loss has set the optimizer's numbers
   in network.state. */
cudaError_t launch_optimizer(const struct network *n, const struct gradient_plan *plan,
                             uint32_t length, uint32_t partials, cudaStream_t stream);

#endif
