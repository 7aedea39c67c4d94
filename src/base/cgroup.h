/* The control groups (cgroup v2) that limit this process. */
#ifndef YKI_CGROUP_H
#define YKI_CGROUP_H

/*
 * Calls visit with the folder of this process's group, and then of each of its ancestors: a limit
 * of any of them counts. Does nothing where version 2 is not what manages the system.
 */
void yki_cgroup_each(void (*visit)(const char *folder, void *data), void *data);

#endif
