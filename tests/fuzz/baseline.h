/* For the fuzzers: an engine with only the portable kernels, with the same flags as the other
   files. */
#undef RUNNEL_X86
#define ISA baseline
