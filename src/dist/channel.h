/*
 * A group's channel: a second group of the same ranks, for small exchanges on the thread that
 * computes. On the group itself they would wait behind the buckets that its own thread reduces
 * meanwhile (a blocking call comes after all that was submitted), and so undo the overlap of
 * communication and computation. MPI_Comm_dup is made for the same reason.
 */
#ifndef YKI_CHANNEL_H
#define YKI_CHANNEL_H

#include <yoke/group.h>

/*
 * Collective: makes the channel at the first call, returns the same one afterwards. It lives as
 * long as the group, watches the same processes, and has failures of its own. It and its group may
 * be used by one thread each.
 */
yk_status yki_group_channel(yk_group **channel, yk_group *group);

#endif
