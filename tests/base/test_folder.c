/* Folders made with their parents, and paths into them. */
#define _GNU_SOURCE
#include "harness.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"

YK_TEST(folders_are_made_with_their_parents)
{
    assert_ok(yki_make_folders(yk_test_path("a/b//c/")));
    assert_true(yki_is_folder(yk_test_path("a/b/c")));
    assert_ok(yki_make_folders(yk_test_path("a/b/c"))); /* again */
    assert_ok(yki_make_folders("/"));
    assert_ok(yki_make_folders_above(yk_test_path("d/e/file")));
    assert_true(yki_is_folder(yk_test_path("d/e")));
    assert_int_not_equal(access(yk_test_path("d/e/file"), F_OK), 0);
    assert_ok(yki_make_folders_above("file"));
}

YK_TEST(a_file_in_the_way_of_a_folder_is_named)
{
    FILE *file = fopen(yk_test_path("file"), "w");
    fclose(file);
    assert_status(YK_ERROR_IO, yki_make_folders(yk_test_path("file/below")));
    assert_contains(yk_last_error(), "file/below: cannot create the folder: Not a directory");
    char path[2 * PATH_MAX];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_make_folders(path));
}

YK_TEST(a_path_is_joined_or_too_long)
{
    char path[PATH_MAX], folder[PATH_MAX];
    assert_ok(yki_join_path(path, "a/b", "c.json"));
    assert_string_equal(path, "a/b/c.json");
    memset(folder, 'x', sizeof folder - 1);
    folder[PATH_MAX - 3] = '\0'; /* the slash, one letter and the zero just fit */
    assert_ok(yki_join_path(path, folder, "c"));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_join_path(path, folder, "cc"));
    assert_contains(yk_last_error(), "xxx...: the path is too long");
}
