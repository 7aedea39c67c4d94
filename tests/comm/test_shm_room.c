/* How much shared memory there is room for, on the machine and in a control group. */
#include "control_group.h"

#include "comm/shm/shm.h"

enum { MIB = 1 << 20 };

YK_TEST(pages_of_files_leave_room_in_a_control_group)
{
    yk_test_cover_control_groups();
    yk_test_limit("cgroup.controllers", "cpu memory\n");
    yk_test_limit("memory.max", "104857600\n");
    yk_test_limit("memory.current", "94371840\n");
    yk_test_limit("memory.stat", "anon 31457280\nfile 62914560\ninactive_anon 31457280\n"
                                 "active_file 20971520\ninactive_file 41943040\n");
    assert_int_equal(yki_shm_free_bytes(), 70 * MIB);
    yk_test_limit("memory.current", "209715200\n");
    assert_int_equal(yki_shm_free_bytes(), 0);
    yk_test_limit("memory.max", "max\n");
    assert_true(yki_shm_free_bytes() > 0);
}

/*
 * Each of two ranks finds room for its own 40 MiB, and together they need 80 of 70. One after the
 * other they used to take them, and then the kernel ended one.
 */
YK_TEST_RANKS(ranks_that_have_no_room_together_take_none, 2)
{
    yk_group *group = NULL;
    void *memory;
    yk_test_cover_control_groups();
    yk_test_limit("memory.max", "73400320\n");
    yk_test_limit("memory.current", "0\n");
    yk_test_limit("cgroup.controllers", "cpu memory\n");
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.timeout_s = 60, o.backend = "shm")));
    assert_status(YK_ERROR_OUT_OF_MEMORY, yk_group_alloc(group, 40 * MIB, &memory));
    assert_contains(yk_last_error(), "41943040 bytes needed by each of 2 ranks, 73400320 free");
    assert_ok(yk_group_alloc(group, 30 * MIB, &memory));
    yk_group_destroy(group);
}
