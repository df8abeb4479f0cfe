/* What one device can do at best: the figures that runnel-bench compares the engine with. */
#ifndef RUNNEL_CUDA_CEILINGS_CUH
#define RUNNEL_CUDA_CEILINGS_CUH

struct cuda_figures;
struct error;

/* As `measure` of cuda_module.h: fills all of `figures` in about two seconds, and leaves the device
   as it was. -1 with a sentence when there is no such device, or it fails. */
int cuda_measure(const char *device, struct cuda_figures *figures, struct error *error);

#endif
