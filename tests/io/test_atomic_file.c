/* Files that appear whole, and the temporary name that they are written under. */
#define _GNU_SOURCE
#include "harness.h"
#include "kill.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/atomic_file.h"

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    fclose(file);
}

static void assert_holds(const char *path, const char *text)
{
    char found[64];
    assert_string_equal(yk_test_read_file(found, sizeof found, path), text);
}

static yk_status replace(const char *path, const char *text)
{
    yki_atomic_file file;
    yk_status status = yki_atomic_open(&file, path);
    if (status != YK_OK)
        return status;
    assert_ok(yki_write_all(file.fd, path, text, strlen(text)));
    return yki_atomic_commit(&file);
}

/* As by a signal while a file server is slow. */
YK_TEST(an_interrupted_sync_is_made_again)
{
    yk_test_interruptions = 3;
    assert_ok(replace(yk_test_path("out"), "weights"));
    assert_int_equal(yk_test_interruptions, 0);
    assert_holds(yk_test_path("out"), "weights");
}

/* A user removes the folder that a training saves in. */
YK_TEST(a_file_that_is_removed_meanwhile_is_written_again)
{
    yki_atomic_file file;
    char path[256];
    snprintf(path, sizeof path, "%s/run/inner/out", yk_test_directory());
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mkdir(yk_test_path("run"), 0777), 0);
        assert_int_equal(mkdir(yk_test_path("run/inner"), 0777), 0);
        assert_ok(yki_atomic_open(&file, path));
        assert_ok(yki_write_all(file.fd, path, "weights", i ? 7 : 0));
        assert_int_equal(unlink(file.temporary), 0);
        assert_int_equal(rmdir(yk_test_path("run/inner")), 0);
        assert_int_equal(rmdir(yk_test_path("run")), 0);
        assert_ok(yki_atomic_commit(&file));
        assert_holds(path, i ? "weights" : "");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(yk_test_path("run/inner")), 0);
        assert_int_equal(rmdir(yk_test_path("run")), 0);
    }
}

YK_TEST(a_symbolic_link_at_the_temporary_name_is_not_followed)
{
    write_text(yk_test_path("precious"), "precious");
    assert_int_equal(symlink("precious", yk_test_path("out.tmp")), 0);
    assert_status(YK_ERROR_IO, replace(yk_test_path("out"), "weights"));
    assert_contains(yk_last_error(), "out.tmp: is in the way of the temporary file");
    assert_holds(yk_test_path("precious"), "precious");
    assert_int_not_equal(access(yk_test_path("out"), F_OK), 0);
}

YK_TEST(a_dangling_link_at_the_temporary_name_creates_nothing)
{
    assert_int_equal(symlink("elsewhere", yk_test_path("out.tmp")), 0);
    assert_status(YK_ERROR_IO, replace(yk_test_path("out"), "weights"));
    assert_int_not_equal(access(yk_test_path("elsewhere"), F_OK), 0);
}

YK_TEST(a_hard_link_at_the_temporary_name_keeps_its_contents)
{
    write_text(yk_test_path("precious"), "precious");
    assert_int_equal(link(yk_test_path("precious"), yk_test_path("out.tmp")), 0);
    assert_ok(replace(yk_test_path("out"), "weights"));
    assert_holds(yk_test_path("precious"), "precious");
    assert_holds(yk_test_path("out"), "weights");
}

YK_TEST(pipes_and_folders_at_the_temporary_name_are_refused)
{
    assert_int_equal(mkfifo(yk_test_path("out.tmp"), 0600), 0);
    assert_status(YK_ERROR_IO, replace(yk_test_path("out"), "weights"));
    assert_int_equal(unlink(yk_test_path("out.tmp")), 0);
    assert_int_equal(mkdir(yk_test_path("out.tmp"), 0700), 0);
    assert_status(YK_ERROR_IO, replace(yk_test_path("out"), "weights"));
    assert_contains(yk_last_error(), "remove it");
}

YK_TEST(a_temporary_file_of_a_dead_writer_is_replaced)
{
    write_text(yk_test_path("out.tmp"), "half of a longer text");
    assert_ok(replace(yk_test_path("out"), "new"));
    assert_holds(yk_test_path("out"), "new");
    assert_int_not_equal(access(yk_test_path("out.tmp"), F_OK), 0);
}

YK_TEST(a_temporary_file_being_written_stays)
{
    yki_atomic_file first, second;
    assert_ok(yki_atomic_open(&first, yk_test_path("out")));
    assert_status(YK_ERROR_IO, yki_atomic_open(&second, yk_test_path("out")));
    assert_contains(yk_last_error(), "out.tmp: another process is writing it");
    assert_ok(yki_write_all(first.fd, "out", "first", 5));
    assert_ok(yki_atomic_commit(&first));
    assert_holds(yk_test_path("out"), "first");
}

YK_TEST(a_link_as_the_file_itself_is_replaced_not_followed)
{
    write_text(yk_test_path("precious"), "precious");
    assert_int_equal(symlink("precious", yk_test_path("out")), 0);
    assert_ok(replace(yk_test_path("out"), "weights"));
    assert_holds(yk_test_path("precious"), "precious");
    assert_holds(yk_test_path("out"), "weights");
}

YK_TEST(the_longest_names_can_be_written)
{
    char name[256] = "";
    memset(name, 'n', sizeof name - 1);
    assert_ok(replace(yk_test_path(name), "old"));
    assert_ok(replace(yk_test_path(name), "weights"));
    assert_holds(yk_test_path(name), "weights");
    name[251] = '\0';
    strcat(name, ".tmp");
    assert_int_not_equal(access(yk_test_path(name), F_OK), 0);
}
