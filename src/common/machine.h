/* Resources of the machine that this process may use. */
#ifndef RUNNEL_MACHINE_H
#define RUNNEL_MACHINE_H

/* Bytes of memory: those of the machine, or less if a control group (a container, a service with
   MemoryMax=) has a limit. The limits are memory.max (version 2) and memory.limit_in_bytes
   (version 1) of the group of the process and its ancestors. `root` is a prefix of the files, ""
   for the system's. 0 if unknown. */
double machine_memory(const char *root);

/* CPU time as a number of CPUs, such as 1.5, from cpu.max (version 2) or cpu.cfs_quota_us
   (version 1). INFINITY: no limit. */
double machine_cpus(const char *root);

/* The `root` for programs: "", or for tests the environment variable RUNNEL_MACHINE. */
const char *machine_root(void);

#endif
