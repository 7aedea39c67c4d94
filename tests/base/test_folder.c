/* Folders made with their parents. */
#define _GNU_SOURCE
#include "harness.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"

static const char *scratch(const char *name)
{
    static char path[2][256];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", yk_test_directory(), name);
    return path[turn];
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

YK_TEST(folders_are_made_with_their_parents)
{
    assert_ok(yki_make_folders(scratch("a/b//c/")));
    assert_true(is_folder(scratch("a/b/c")));
    assert_ok(yki_make_folders(scratch("a/b/c"))); /* again */
    assert_ok(yki_make_folders("/"));
    assert_ok(yki_make_folders_above(scratch("d/e/file")));
    assert_true(is_folder(scratch("d/e")));
    assert_int_not_equal(access(scratch("d/e/file"), F_OK), 0);
    assert_ok(yki_make_folders_above("file"));
}

YK_TEST(a_file_in_the_way_of_a_folder_is_named)
{
    FILE *file = fopen(scratch("file"), "w");
    fclose(file);
    assert_status(YK_ERROR_IO, yki_make_folders(scratch("file/below")));
    assert_contains(yk_last_error(), "file/below: cannot create the folder: Not a directory");
    char path[2 * PATH_MAX];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_make_folders(path));
}
