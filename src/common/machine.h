/* What of the machine this process may use. */
#ifndef RUNNEL_MACHINE_H
#define RUNNEL_MACHINE_H

/* Bytes of memory: what the machine has, or less where a control group (a container, a service with
   MemoryMax=) has a limit: memory.max of version 2, memory.limit_in_bytes of version 1, of the
   group of the process and of those above it. Files are read below `root`, "" for those of the
   system. 0 when nothing is known. */
double machine_memory(const char *root);

/* CPUs that this process has the time of, likewise: cpu.max of version 2, cpu.cfs_quota_us of
   version 1; 1.5 are one and a half. INFINITY: there is no limit. */
double machine_cpus(const char *root);

/* The `root` of a program: "", or, for tests, what RUNNEL_MACHINE names. */
const char *machine_root(void);

#endif
