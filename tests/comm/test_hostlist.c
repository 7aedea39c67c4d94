/* Slurm's compressed lists, whose grammar is described in its src/common/hostlist.h. */
#include "harness.h"

#include <string.h>

#include "comm/job/hostlist.h"

/* All hosts of the list, separated by spaces. */
static const char *expand(const char *list)
{
    static char all[1024];
    char host[64];
    size_t used = 0;
    all[0] = '\0';
    for (long i = 0; yki_hostlist_get(host, sizeof host, list, i) == YK_OK && used < sizeof all;
         i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? " " : "", host);
    return all;
}

YK_TEST(lists_of_hosts)
{
    static const struct {
        const char *list, *hosts;
    } rows[] = {
        {"n1", "n1"},
        {"n1,n2", "n1 n2"},
        {"n[1-3]", "n1 n2 n3"},
        {"n[1-2,7]", "n1 n2 n7"},
        {"node[08-11]", "node08 node09 node10 node11"},
        {"linux[0000-0002]", "linux0000 linux0001 linux0002"},
        {"n[9-11]", "n9 n10 n11"},
        {"n[1-2]-ib", "n1-ib n2-ib"},
        {"n[1-2].site.org,login", "n1.site.org n2.site.org login"},
        {"r[1-2]n[01-03]", "r1n01 r1n02 r1n03 r2n01 r2n02 r2n03"},
        {"a[1-2,4]b[0-1]c", "a1b0c a1b1c a2b0c a2b1c a4b0c a4b1c"},
        {"gpu-a,cpu[1-2],x[3]", "gpu-a cpu1 cpu2 x3"},
        {"n1 n2\tn3", "n1 n2 n3"},
        {"[1-2]", "1 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(expand(rows[i].list), rows[i].hosts);
}

YK_TEST(malformed_lists_of_hosts_are_refused)
{
    static const char *const lists[] = {"",
                                        "n[",
                                        "n[1",
                                        "n[1-",
                                        "n[1-2",
                                        "n[]",
                                        "n[3-1]",
                                        "n[a-b]",
                                        "n]",
                                        "n[1-2]]",
                                        "n[[1]]",
                                        "bgl[000x333]",
                                        "n[1-9999999]",
                                        "n[1-1000]m[1-1000]",
                                        "n[99999999999999999999-99999999999999999999]",
                                        ",",
                                        "n[1,,2]"};
    char host[64];
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_status(YK_ERROR_INVALID_ARGUMENT, yki_hostlist_get(host, sizeof host, lists[i], 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_hostlist_get(host, 4, "node1", 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_hostlist_get(host, sizeof host, "n[1-2]", 2));
    assert_contains(yk_last_error(), "has no host 2");
}

YK_TEST(a_large_list_is_not_expanded)
{
    char host[64];
    assert_ok(yki_hostlist_get(host, sizeof host, "n[000000-250000]", 250000));
    assert_string_equal(host, "n250000");
}

YK_TEST(tasks_per_node)
{
    static const struct {
        const char *list;
        long counts[5];
    } rows[] = {{"2(x3),1", {2, 2, 2, 1, -1}},
                {"4", {4, -1}},
                {"3,1", {3, 1, -1}},
                {"1(x2),16(x2)", {1, 1, 16, 16, -1}}};
    long count;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (long node = 0; node < 5; node++) {
            if (rows[i].counts[node] < 0) {
                assert_status(YK_ERROR_INVALID_ARGUMENT,
                              yki_countlist_get(&count, rows[i].list, node));
                break;
            }
            assert_ok(yki_countlist_get(&count, rows[i].list, node));
            assert_int_equal(count, rows[i].counts[node]);
        }
    static const char *const wrong[] = {"", "x", "(x3)", "2(x", "2(x3", "2(3),1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(YK_ERROR_INVALID_ARGUMENT, yki_countlist_get(&count, wrong[i], 0));
}
