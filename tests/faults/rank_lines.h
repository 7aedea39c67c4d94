/*
 * For tests of groups whose ranks misbehave: each rank leaves its error line, which is what is
 * promised, in a file of the case's folder, named by YK_TEST_LINES.
 */
#ifndef YK_TEST_RANK_LINES_H
#define YK_TEST_RANK_LINES_H

#include "clock.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/group_state.h"

/* A folder for each case. */
static inline void open_lines(void)
{
    static int cases;
    char path[128];
    if (getenv("YK_TEST_RANK"))
        return;
    snprintf(path, sizeof path, "%s/case-%d", yk_test_directory(), cases++);
    assert_int_equal(mkdir(path, 0700), 0);
    setenv("YK_TEST_LINES", path, 1);
}

static inline void leave_text(const char *name, int rank, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s-%d", getenv("YK_TEST_LINES"), name, rank);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static inline void leave_line(int rank)
{
    leave_text("line", rank, yk_last_error());
}

static inline const char *text_of(const char *name, int rank)
{
    static char text[1024];
    char path[256];
    snprintf(path, sizeof path, "%s/%s-%d", getenv("YK_TEST_LINES"), name, rank);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file)
        fclose(file);
    return text;
}

static inline const char *line_of(int rank)
{
    return text_of("line", rank);
}

/* Waits until the rank has left this text. */
static inline void await_text(const char *name, int rank)
{
    double deadline = yk_test_now() + 20;
    while (text_of(name, rank)[0] == '\0' && yk_test_now() < deadline)
        usleep(5000);
}

/* The same for every rank: all are in the thick of it. */
static inline void await_texts(const char *name, int world)
{
    for (int r = 0; r < world; r++)
        await_text(name, r);
}

static inline yk_group *join(double timeout_s)
{
    yk_group *group = NULL;
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = timeout_s)));
    return group;
}

/* The timeout of the calls from now on. Ranks of a busy machine may take longer to meet than a case
 * wants to wait for a call in vain. */
static inline void set_timeout(yk_group *group, double timeout_s)
{
    group->job.timeout_s = timeout_s;
}

/* A call that only some of the ranks make; data has room for 4 numbers. */
typedef yk_status (*call_fn)(yk_group *group, void *data);

static inline yk_status call_reduce(yk_group *group, void *data)
{
    return yk_all_reduce(group, data, 4, YK_F32, YK_REDUCE_SUM, NULL);
}

#endif
