/*
 * Every public function survives NULL and zero as its arguments. The list is the library's own, so
 * a new function is covered from its first day.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char names[65536];

/*
 * Functions that return a large struct take the address of the result as a hidden first argument,
 * so they cannot be called through the type below; tests of their modules pass them NULL. Those of
 * backends are called by the library only.
 */
static bool is_called_elsewhere(const char *name)
{
    static const char *const large[] = {
        "yk_data_parallel_last_stats", "yk_ddp_last_stats",   "yk_ema_value",
        "yk_grad_scaler_get_state",    "yk_model_buffer",     "yk_model_parameter",
        "yk_model_profile_kernel",     "yk_transform_step_of"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (strcmp(name, large[i]) == 0)
            return true;
    return strncmp(name, "yk_backend_", strlen("yk_backend_")) == 0;
}

/* In a child, since the function may crash, hang or start threads. Calling conventions pass
 * integers and pointers in registers and then on the stack, and reals in registers of their own. */
static int call_with_zeros(void *library, const char *name)
{
    typedef long (*any_function)(long, long, long, long, long, long, long, long, double, double);
    int status = -1;
    pid_t child = yk_test_fork();
    if (child == 0) {
        any_function function;
        *(void **)&function = dlsym(library, name);
        alarm(20);
        if (function)
            function(0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0);
        _exit(function ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

YK_TEST(null_never_crashes_a_public_function)
{
    int called = 0, code = yk_test_command(names, sizeof names,
                                           "nm -D --defined-only '%s/libyoke.so' | awk "
                                           "'$2 == \"T\" && $3 ~ /^yk_/ { print $3 }'",
                                           getenv("YOKE_BUILD"));
    assert_int_equal(code, 0);
    char path[512];
    snprintf(path, sizeof path, "%s/libyoke.so", getenv("YOKE_BUILD"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    char *rest = NULL;
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        if (is_called_elsewhere(name))
            continue;
        int status = call_with_zeros(library, name);
        if (status != 0)
            fail_msg("%s of NULL and 0 ended its process: wait status %d", name, status);
        called++;
    }
    assert_true(called > 200);
    dlclose(library);
}
