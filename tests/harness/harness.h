/*
 * The test harness: YK_TEST(name) { ... } with cmocka's assertions. `test_x` runs all its cases,
 * `test_x name` one; each ctest test is one case in one process.
 *
 * A multi-rank case calls yk_test_ranks(world, body): the program starts itself again once per
 * rank (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set), runs body in each, and fails unless every
 * rank ends with 0. What is left after the deadline is killed. YK_TEST_RANKS(name, world) { ... }
 * is a case whose body is that of every rank, with rank and world at hand.
 */
#ifndef YK_TEST_HARNESS_H
#define YK_TEST_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include <yoke/yoke.h>

typedef void (*yk_test_fn)(void **state);
void yk_test_register(const char *name, yk_test_fn run);

#define YK_TEST(name)                                                                              \
    static void test_##name(void **state);                                                         \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        yk_test_register(#name, test_##name);                                                      \
    }                                                                                              \
    static void test_##name(void **state __attribute__((unused)))

/* The call must succeed / must fail with this status; prints the error line otherwise. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        yk_status assert_ok_ = (call);                                                             \
        if (assert_ok_ != YK_OK)                                                                   \
            fail_msg("%s: %s: %s", #call, yk_status_string(assert_ok_), yk_last_error());          \
    } while (0)
#define assert_status(expected, call)                                                              \
    do {                                                                                           \
        yk_status assert_status_ = (call);                                                         \
        if (assert_status_ != (expected))                                                          \
            fail_msg("%s: got %s (%s)", #call, yk_status_string(assert_status_), yk_last_error()); \
    } while (0)
#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" does not contain \"%s\"", (text), (part));                            \
    } while (0)

/*
 * Options for one call: the defaults with a few fields changed, o being the struct. Example:
 * YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)
 */
#define YK_WITH(type, INIT, ...)                                                                   \
    ((type[1]){__extension__({                                                                     \
        type o = INIT;                                                                             \
        __VA_ARGS__;                                                                               \
        o;                                                                                         \
    })})

/* Says why and ends the case as skipped. */
#define skip_because(...)                                                                          \
    do {                                                                                           \
        print_message(__VA_ARGS__);                                                                \
        print_message("\n");                                                                       \
        skip();                                                                                    \
    } while (0)

/* Runs body in `world` processes of this program; asserts that each exits with 0. Call it once a
 * case, with nothing before it that must not happen in every rank. */
void yk_test_ranks(int world, void (*body)(int rank, int world));
/* The same, but returns the exit statuses (waitpid's form) instead of asserting. after_start is
 * called in the parent with the pids once all run; may be NULL. */
void yk_test_ranks_status(int world, void (*body)(int rank, int world), int *statuses,
                          void (*after_start)(const pid_t *pids, int world));

/* Where a rank is in its job. */
typedef struct yk_test_place {
    int rank, local_rank, world, local_world;
    int host; /* from 0 on */
    const char *master;
    int port;
} yk_test_place;

/* fork(), which has succeeded. The child is killed when this process ends: a test that fails leaves
 * nothing behind. A process that is left would keep the test's output open, for which ctest waits.
 */
pid_t yk_test_fork(void);

/* What these are made of, for ranks that are started in other ways (hosts.h). The first forks, and
 * returns 0 in a process whose variables name the place, and which ends with this one. In a process
 * that is a rank, the second runs body and exits. The third waits for the ranks and kills those
 * that are left after the deadline. */
pid_t yk_test_fork_rank(const yk_test_place *place);
void yk_test_run_as_rank(void (*body)(int rank, int world), int world);
void yk_test_await_ranks(int world, pid_t *pids, int *statuses);
void yk_test_assert_ranks(int world, const int *statuses);
const char *yk_test_running_case(void);

#define YK_TEST_RANKS(name, count)                                                                 \
    static void ranks_##name(int rank, int world);                                                 \
    YK_TEST(name)                                                                                  \
    {                                                                                              \
        yk_test_ranks(count, ranks_##name);                                                        \
    }                                                                                              \
    static void ranks_##name(int rank __attribute__((unused)), int world __attribute__((unused)))

/* YK_TEST_DEVICE, if it is set: a case that asks for a device can then run on another. */
const char *yk_test_device(const char *device);
/* A tensor as the host can read it: itself, or a copy of one that is in a device's memory, which is
 * there until the case ends. */
yk_tensor yk_test_on_host(yk_tensor tensor);
/* Brings what was written into on_host, which is tensor on the host, back to the tensor. */
void yk_test_write_back(yk_tensor tensor, yk_tensor on_host);

/* A folder of this test alone, removed at the end. */
const char *yk_test_directory(void);
/* The path of a file in that folder, valid until the eighth call after this one. */
const char *yk_test_path(const char *name);
/* Call it before each mpirun of Open MPI, which may then run as root and has a temporary folder to
 * itself. In a shared one, an mpirun can fail because another starts or ends at the same time. */
void yk_test_openmpi(void);
/* Runs a command through the shell, its stdout and stderr in output; returns its exit code, 128 + n
 * when signal n ended it. */
int yk_test_command(char *output, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads a text file, as much as fits, and ends it with a zero; returns text. The case fails if the
 * file cannot be opened. */
char *yk_test_read_file(char *text, size_t size, const char *path);
void yk_test_write_file(const char *path, const void *data, size_t size);
/* A TCP port that was free a moment ago, and that no other test gets while this one runs. */
int yk_test_free_port(void);

#endif
