/* Checkpoints that rank 0 cannot write, or not before the other ranks have waited too long, as on a
 * file server that hangs. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../faults/rank_lines.h"
#include "parts.h"

enum { SAVED_STEP = 2 };

static bool hangs, fails;

/* Of the library: in rank 0, it lasts until rank 1 has given up, or fails. */
int fsync(int fd)
{
    if (fails) {
        errno = EIO;
        return -1;
    }
    while (hangs && line_of(1)[0] == '\0') /* the case's deadline ends this */
        usleep(1000);
    return (int)syscall(SYS_fsync, fd);
}

/* Rank 1 waits for nothing but the checkpoint from here on. */
static yk_status on_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    (void)trainer;
    yk_group *group = context;
    if (yk_group_rank(group) == 1 && record->step == SAVED_STEP)
        set_timeout(group, 0.5);
    return YK_OK;
}

static void train(int rank, yk_trainer_options options, yk_status expected)
{
    yk_ddp *ddp;
    char output[512];
    snprintf(output, sizeof output, "%s/run", getenv("YK_TEST_LINES"));
    options.epochs = 1;
    options.output = output;
    options.save_every = SAVED_STEP;
    parts p = create_parts(&options, 200);
    assert_ok(yk_ddp_create(&ddp, p.model, options.group, NULL));
    assert_status(expected, yk_trainer_fit(p.trainer));
    leave_line(rank);
    yk_ddp_destroy(ddp);
    destroy_parts(p);
    yk_group_destroy(options.group);
}

static void hang_body(int rank, int world)
{
    (void)world;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = join(60);
    options.callbacks.context = options.group;
    options.callbacks.on_step = on_step;
    hangs = rank == 0;
    train(rank, options, YK_ERROR_TIMEOUT);
}

YK_TEST(ranks_that_wait_in_vain_for_a_checkpoint_say_so)
{
    open_lines();
    yk_test_ranks(2, hang_body);
    assert_contains(line_of(1), "yoke: rank 1: while rank 0 saved a checkpoint in ");
    assert_contains(line_of(1), "/run: barrier(), operation ");
    assert_contains(line_of(1), "timed out after 0.5 s: rank 0 did not take part (pid ");
}

static void fail_on_ranks(int rank, bool save_async)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = join(60);
    options.save_async = save_async;
    fails = rank == 0;
    train(rank, options, rank == 0 ? YK_ERROR_IO : YK_ERROR_MISMATCH);
}

static void fail_body(int rank, int world)
{
    (void)world;
    fail_on_ranks(rank, false);
}

static void fail_later_body(int rank, int world)
{
    (void)world;
    fail_on_ranks(rank, true);
}

static void check_all_say_why(void (*body)(int rank, int world))
{
    open_lines();
    yk_test_ranks(2, body);
    for (int rank = 0; rank < 2; rank++) {
        assert_contains(line_of(rank), "rank 0");
        assert_contains(line_of(rank), "/run/");
        assert_contains(line_of(rank), "Input/output error");
    }
}

YK_TEST(all_ranks_say_why_a_checkpoint_could_not_be_saved)
{
    check_all_say_why(fail_body);
}

YK_TEST(all_ranks_say_why_a_checkpoint_could_not_be_saved_in_the_background)
{
    check_all_say_why(fail_later_body);
}
