/* How many cores a process may use. */
#include "control_group.h"

#include "base/cores.h"

YK_TEST(quotas_of_control_groups_limit_the_cores)
{
    yk_test_cover_control_groups();
    yk_test_limit("cpu.max", "50000 100000\n");
    int affinity = yki_cores_available(); /* without cgroup.controllers this is not version 2 */
    yk_test_limit("cgroup.controllers", "cpu memory\n");
    assert_int_equal(yki_cores_available(), 1);
    yk_test_limit("cpu.max", "150000 100000\n");
    assert_int_equal(yki_cores_available(), affinity < 2 ? affinity : 2);
    yk_test_limit("cpu.max", "max 100000\n");
    assert_int_equal(yki_cores_available(), affinity);
}
