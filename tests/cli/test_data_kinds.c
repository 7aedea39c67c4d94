/* What --data names: patterns of shards, which are not files themselves. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup/data_kinds.h"

YK_TEST(both_patterns_of_shards_become_absolute)
{
    char absolute[CLI_DATA_PATH], expected[2 * CLI_DATA_PATH];
    char *folder = get_current_dir_name();
    assert_true(cli_data_absolute("shards:t-{0..1}.tar::v.tar", absolute));
    snprintf(expected, sizeof expected, "shards:%s/t-{0..1}.tar::%s/v.tar", folder, folder);
    assert_string_equal(absolute, expected);
    assert_true(cli_data_absolute("shards:/a/t.tar::/b/v.tar", absolute));
    assert_string_equal(absolute, "shards:/a/t.tar::/b/v.tar");
    free(folder);
}

/* Elsewhere, two colons are a part of a name. */
YK_TEST(a_folder_may_have_colons_in_its_name)
{
    char absolute[CLI_DATA_PATH];
    assert_true(cli_data_absolute("folder:/a::/b/c", absolute));
    assert_string_equal(absolute, "folder:/a::/b/c");
    assert_true(cli_data_absolute("/a::b", absolute));
    assert_string_equal(absolute, "/a::b");
    assert_false(cli_check_data("train", "--data", "folder:/no::such"));
}

YK_TEST(patterns_are_not_looked_for_as_files)
{
    assert_true(cli_check_data("train", "--data", "shards:no-such.tar::neither.tar"));
    assert_true(cli_check_data("train", "--data", "shards:no-such-{0..3}.tar"));
    assert_false(cli_check_data("train", "--data", "shards:no-such.tar"));
}
