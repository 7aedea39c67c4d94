/* Lines of the library's log, and the level that enables them. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

/* What a process with YOKE_LOG=level says on stderr: the level is read once in each. */
static void log_with(const char *level, char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        setenv("YOKE_LOG", level, 1);
        dup2(ends[1], STDERR_FILENO);
        YKI_WARN("a warning of %d", 7);
        YKI_INFO("news of %d", 8);
        _exit(0);
    }
    close(ends[1]);
    size_t at = 0;
    for (ssize_t got; (got = read(ends[0], text + at, size - 1 - at)) > 0;)
        at += (size_t)got;
    text[at] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

YK_TEST(warnings_are_shown_and_news_are_not)
{
    char text[512];
    log_with("", text, sizeof text);
    assert_string_equal(text, "yoke: a warning of 7\n");
}

YK_TEST(a_level_shows_all_above_it)
{
    char text[512];
    log_with("info", text, sizeof text);
    assert_string_equal(text, "yoke: a warning of 7\nyoke: news of 8\n");
}

YK_TEST(a_level_that_is_none_is_named)
{
    char text[512];
    log_with("verbose", text, sizeof text);
    assert_contains(text, "YOKE_LOG=verbose: expected error, warn, info or debug\n");
    assert_contains(text, "a warning of 7\n");
}
