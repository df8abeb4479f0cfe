/* The loader's functions for the engine: cuBLAS is a library that may be missing
   (HOSTCUDA_FAIL=dlopen:1). */
#ifndef HOSTCUDA_DLFCN_H
#define HOSTCUDA_DLFCN_H

#pragma GCC system_header
#include_next <dlfcn.h>

extern "C" {
void *hostcuda_dlopen(const char *name, int mode);
void *hostcuda_dlsym(void *library, const char *name);
char *hostcuda_dlerror(void);
}

#define dlopen hostcuda_dlopen
#define dlsym hostcuda_dlsym
#define dlerror hostcuda_dlerror

#endif
