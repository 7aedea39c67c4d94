/* Backends that are modules: what is said when one is missing or wrong. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yoke/backend.h>

static yk_status init_with(const char *backend)
{
    yk_group *group;
    yk_status status = yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                     o.backend = backend, o.timeout_s = 30));
    assert_null(group);
    return status;
}

YK_TEST_RANKS(a_missing_module_names_its_package, 2)
{
    (void)rank, (void)world;
    setenv("YOKE_MODULES", "/nowhere", 1);
    assert_status(YK_ERROR_UNSUPPORTED, init_with("gloo"));
    assert_contains(yk_last_error(), "libyoke-gloo.so");
    assert_contains(yk_last_error(), "libgloo-dev");
}

YK_TEST_RANKS(an_unknown_backend_is_refused, 2)
{
    (void)rank, (void)world;
    assert_status(YK_ERROR_INVALID_ARGUMENT, init_with("carrier-pigeon"));
    assert_contains(yk_last_error(), "unknown backend \"carrier-pigeon\"");
    assert_status(YK_ERROR_INVALID_ARGUMENT, init_with("../shm"));
    assert_contains(yk_last_error(), "unknown backend \"../shm\"");
}

YK_TEST(a_name_is_checked_without_opening_a_module)
{
    static const char *const names[] = {"self", "shm", "tcp", "shm+tcp", "sim"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_status(YK_OK, yk_backend_check(names[i]));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_check("carrier-pigeon"));
    assert_contains(yk_last_error(), "unknown backend \"carrier-pigeon\": there are self, shm");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_check("shm+pigeon"));
    assert_contains(yk_last_error(), "unknown backend \"pigeon\"");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_check(""));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_check(NULL));
    setenv("YOKE_MODULES", "/nowhere", 1);
    assert_status(YK_ERROR_UNSUPPORTED, yk_backend_check("shm+gloo"));
    assert_contains(yk_last_error(), "libgloo-dev");
}

/* A file of the right name in YOKE_MODULES that is no module. */
YK_TEST_RANKS(a_file_that_is_no_module_is_refused, 2)
{
    (void)world;
    char folder[64], path[128];
    snprintf(folder, sizeof folder, "/tmp/yoke-modules-%d-%d", getpid(), rank);
    snprintf(path, sizeof path, "%s/libyoke-broken.so", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("not an object", file);
    fclose(file);
    setenv("YOKE_MODULES", folder, 1);
    yk_status status = init_with("broken");
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, YK_ERROR_UNSUPPORTED);
    assert_contains(yk_last_error(), "libyoke-broken.so");
}

YK_TEST(known_modules_are_listed)
{
    bool gloo = false, mpi = false;
    const char *backend;
    size_t i;
    for (i = 0; yk_backend_module_file(i, &backend); i++) {
        gloo = gloo || strcmp(backend, "gloo") == 0;
        mpi = mpi || strcmp(backend, "mpi") == 0;
        if (strcmp(backend, "nccl") == 0 && yk_backend_module_check(i) != YK_OK)
            assert_contains(yk_last_error(), "libnccl2");
    }
    assert_true(gloo && mpi);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_module_check(i));
}
