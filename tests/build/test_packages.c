/* scripts/packages and the packages of Debian agree on what a build needs. */
#include <stdlib.h>

#include "harness.h"

static char output[8192];

/* gcc and the C library's headers are there wherever packages of Debian are built. */
YK_TEST(packages_of_debian_declare_what_the_build_needs)
{
    int code = yk_test_command(
        output, sizeof output,
        "cd '%s' && awk '$1 == \"build\" { print $2 }' scripts/packages |"
        " grep -vxE 'gcc|libc6-dev|ca-certificates' | while read -r package; do"
        "   sed -n '/^Build-Depends/,/^Standards/p' packaging/debian/control |"
        "   grep -qE \"[: ]$package( \\(|,|\\$)\" || echo \"missing: $package\"; done",
        getenv("YOKE_SOURCE"));
    assert_int_equal(code, 0);
    assert_string_equal(output, "");
}

/* dh_missing refuses to make packages while a module has no place. The packages have no cuda. */
YK_TEST(packages_of_debian_have_a_place_for_each_module)
{
    int code = yk_test_command(
        output, sizeof output,
        "cd '%s'/modules && grep -o 'yoke_add_\\(module\\|backend\\)([a-z][a-z-]*' CMakeLists.txt |"
        " sed 's/.*(//' | grep -vx cuda | while read -r module; do"
        "   for place in $(grep -hv '^#' ../packaging/debian/*install*); do"
        "     case usr/lib/x/libyoke-$module.so in $place) continue 2 ;; esac; done;"
        "   echo \"no place for: $module\"; done",
        getenv("YOKE_SOURCE"));
    assert_int_equal(code, 0);
    assert_string_equal(output, "");
}
