/* For the fuzzers: an engine of the portable kernels alone, compiled as everything else is. */
#undef RUNNEL_X86
#define ISA baseline
