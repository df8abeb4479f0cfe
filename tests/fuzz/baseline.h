/* An engine with only the portable kernels for the fuzzers, compiled with the same flags as the
   other files. */
#undef RUNNEL_X86
#define ISA baseline
