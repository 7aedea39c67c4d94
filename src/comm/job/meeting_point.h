/*
 * Where rank 0 serves the store when nobody has said where: derived from what only the ranks of one
 * job know alike.
 */
#ifndef YKI_MEETING_POINT_H
#define YKI_MEETING_POINT_H

#include "comm/job/place.h"

enum { YKI_MEETING_HOSTS = 4, YKI_MEETING_PORTS = 8 };

typedef struct yki_meeting_point {
    char host[YKI_MEETING_HOSTS][256]; /* by which to look for rank 0, the likelier name first */
    int hosts;
    const char *nodes; /* a list of Slurm's, on any host of which rank 0 may be, or NULL */
    int node_count;
    int port; /* and the next `ports` - 1: rank 0 takes the first that is free */
    int ports;
    char identity[160]; /* names the job. Stores of other jobs on these ports refuse us by it */
    bool secret;        /* nobody else can know the identity */
} yki_meeting_point;

/* For a task of a Slurm step, and a rank of mpirun; YK_ERROR_NOT_FOUND where neither is known. */
yk_status yki_meeting_point_derive(yki_meeting_point *point, const yki_place *place,
                                   double timeout_s);
/*
 * For a rank of torchrun on several hosts, whose agent holds MASTER_PORT: on the host MASTER_ADDR,
 * but at other ports.
 */
yk_status yki_meeting_point_of_torchrun(yki_meeting_point *point);

#endif
