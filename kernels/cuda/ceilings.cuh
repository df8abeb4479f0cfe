/* The top speeds of one device, which runnel-bench compares the engine with. */
#ifndef RUNNEL_CUDA_CEILINGS_CUH
#define RUNNEL_CUDA_CEILINGS_CUH

struct cuda_figures;
struct error;

/* `measure` of cuda_module.h: fills `figures` in about two seconds, and leaves the device
   unchanged. -1 if the device is not found or fails. */
int cuda_measure(const char *device, struct cuda_figures *figures, struct error *error);

#endif
