/* The parts of a group that other files of the library use beyond its public interface. */
#ifndef YKI_GROUP_INTERNAL_H
#define YKI_GROUP_INTERNAL_H

#include "base/reference.h"
#include "comm/call.h"

/* Every object built on a group holds a reference to it; the last release leaves the job. */
void yki_group_retain(yk_group *group);
void yki_group_release(yk_group *group);

/*
 * The way from a public call's arguments (collectives.c) to its execution (run.c). Numbers the
 * call and runs it now or, when work is not NULL, on the group's thread. Within a task it always
 * runs now, because the queue waits for the task. checked is the result of checking its arguments:
 * if that is not YK_OK, its error line is this thread's last error.
 */
yk_status yki_group_submit(yk_group *group, yki_call *call, yk_status checked, yk_work **work);

/* Makes room for the messages of a call, which is submitted next. */
yk_status yki_call_make_messages(yki_call *call, size_t count, yk_backend_message **messages);

/*
 * A sum on the group's thread, which runs before(context) when it comes to it, and after(context)
 * once it has succeeded. Unlike a task (yki_group_run), it leaves other calls in flight meanwhile.
 * There is always a work.
 */
yk_status yki_group_sum_between(yk_group *group, void *data, size_t count, yk_dtype dtype,
                                void (*before)(void *context), void (*after)(void *context),
                                void *context, yk_work **work);

/*
 * What all ranks of a group do together, such as making a yk_ddp, and one of them may be unable to
 * do by itself. Between begin and end, this rank makes collectives as long as nothing fails; end
 * takes the status. It waits for all ranks:
 *
 *     yki_joint joint = yki_joint_begin(group);
 *     return yki_joint_end(&joint, make_together(...));
 *
 * If a rank has failed, all ranks fail at once, with YK_ERROR_MISMATCH where the failure is another
 * rank's, which the error line names, with the reason. The group remains usable. The others learn
 * of it in the collective that they make next, or in end. What is wrong on all ranks alike may fail
 * between the two on all of them, too. A group of one rank, or NULL, changes nothing.
 */
typedef struct yki_joint {
    yk_group *group;
    uint64_t collectives; /* of the group, before */
} yki_joint;

yki_joint yki_joint_begin(yk_group *group);
/* What end does; its status counts where this rank's is YK_OK. */
yk_status yki_joint_meet(const yki_joint *joint, yk_status status);

/* Inline, so that static analysis sees that a failure remains one. */
static inline yk_status yki_joint_end(const yki_joint *joint, yk_status status)
{
    yk_status met = yki_joint_meet(joint, status);
    return status == YK_OK ? met : status;
}

/* Tells the other ranks, in the collective that they make next, that this one cannot take part.
 * Returns status, which is that of this thread's last error. */
yk_status yki_group_refuse(yk_group *group, yk_status status);

/*
 * A group's channel: a duplicate for small exchanges on the thread that computes. On the group
 * itself they would wait for the buckets that its own thread is reducing (a blocking call runs
 * after everything submitted before it), which would undo the overlap of communication and
 * computation.
 *
 * Collective: creates the channel at the first call and returns the same one afterwards. It lives
 * as long as the group, and has failures of its own. The channel and its group may be used by one
 * thread each.
 */
yk_status yki_group_channel(yk_group **channel, yk_group *group);

/*
 * Makes text (size bytes) the same on all ranks that ask about the subject: that of the first to
 * ask. Not collective: ranks may come at any time, or never.
 */
yk_status yki_group_agree(yk_group *group, const char *subject, char *text, size_t size);

/*
 * How many seconds after `since` (yki_now) the group's last blocking call still waited for ranks
 * that had not begun it; 0 where it did not, or where the backend cannot tell.
 */
double yki_group_waited(const yk_group *group, double since);

/*
 * Tells the launchers of a job that is being stopped that its last checkpoint is being written:
 * they grant it a grace period of its own. One rank calls this. Without a launcher it does nothing.
 */
void yki_group_announce_save(yk_group *group);

/* The calls from here on are those of batches, of which another rank may have fewer: the error of a
 * rank that has ended well says what helps then. */
void yki_group_note_batches(yk_group *group);

/*
 * Tells the launcher that all ranks are about to end because of this one, whose last error says
 * why: they have agreed on it, so no call of the group fails. Otherwise the launcher would name the
 * rank that happens to exit first. A failure that was reported earlier is kept.
 */
void yki_group_report_cause(yk_group *group, yk_status status);

/*
 * For backends of the library whose ranks tell each other of a failure: what it is, once
 * yk_backend_site.look has returned it, and making it the failure of this rank's group without
 * asking the store. context is that of the site.
 */
const char *yki_group_failure_text(const void *context);
yk_status yki_group_adopt_failure(void *context, yk_status status, const char *text);

/* The number in the job of one of the group's ranks, for messages. */
int yki_group_job_rank(const yk_group *group, int rank);
/* The same as "rank 3" or, where the job has several hosts, "rank 3 on host n2". */
void yki_group_rank_name(const yk_group *group, int rank, char *name, size_t size);

/* Whether sums are added in the order of ranks, so that they have the same bits everywhere. */
bool yki_group_adds_in_rank_order(const yk_group *group);

#endif
