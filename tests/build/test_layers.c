/*
 * scripts/check-layers passes on this tree and fails on each kind of violation: every case plants
 * one in a small tree of its own.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness.h"

static char output[8192];

static int check(const char *root)
{
    return yk_test_command(output, sizeof output, "'%s/scripts/check-layers' '%s'",
                           getenv("YOKE_SOURCE"), root);
}

/* A tree of one file, PATH, with this one include. */
static int check_planted(const char *path, const char *include)
{
    const char *root = yk_test_directory();
    char made[64];
    assert_int_equal(yk_test_command(made, sizeof made,
                                     "cd '%s' && rm -rf include src cli modules examples && "
                                     "mkdir -p \"$(dirname %s)\" && echo '#include %s' > %s",
                                     root, path, include, path),
                     0);
    return check(root);
}

static void refused(const char *path, const char *include, const char *why)
{
    if (check_planted(path, include) == 0)
        fail_msg("%s may include %s", path, include);
    assert_contains(output, path);
    assert_contains(output, why);
}

static void accepted(const char *path, const char *include)
{
    if (check_planted(path, include) != 0)
        fail_msg("%s may not include %s: %s", path, include, output);
}

YK_TEST(layers_hold)
{
    if (check(getenv("YOKE_SOURCE")) != 0)
        fail_msg("%s", output);
}

YK_TEST(layers_refuse_upward_includes)
{
    refused("src/base/a.c", "\"tensor/init.h\"", "base must not know tensor");
    refused("src/graph/a.c", "\"parallel/bucket.h\"", "graph must not know parallel");
    refused("src/io/a.h", "\"data/loader.h\"", "io must not know data");
    refused("src/io/a.h", "\"model/model.h\"", "io must not know model");
    accepted("src/parallel/a.c", "\"model/model.h\"");
    accepted("src/parallel/a.c", "\"parallel/bucket.h\"");
    accepted("src/parallel/a.c", "<yoke/ddp.h>");
}

YK_TEST(layers_refuse_private_folders)
{
    refused("src/model/a.c", "\"device/cpu/cpu.h\"", "private to src/device");
    accepted("src/device/a.c", "\"device/cpu/cpu.h\"");
}

YK_TEST(layers_of_data)
{
    refused("src/data/a.c", "\"data/transforms/frame.h\"", "data must not know");
    refused("src/data/transforms/a.c", "\"data/loader/state.h\"", "data/transforms must not know");
    refused("src/data/sources/a.c", "\"data/loader/state.h\"", "data/sources must not know");
    refused("src/data/helpers/a.c", "<string.h>", "is no folder of src/data");
    refused("src/train/a.c", "\"data/loader/state.h\"", "private to src/data");
    accepted("src/data/loader/a.c", "\"data/transforms/frame.h\"");
    accepted("src/data/loader/a.c", "\"data/worker.h\"");
    accepted("src/data/a.c", "\"data/worker.h\"");
}

YK_TEST(layers_of_checkpoint)
{
    refused("src/checkpoint/tensor_file/a.c", "\"checkpoint/state/match.h\"",
            "checkpoint/tensor_file must not know");
    refused("src/checkpoint/state/a.c", "\"checkpoint/checkpoint.h\"",
            "checkpoint/state must not know");
    refused("src/train/a.c", "\"checkpoint/state/match.h\"", "private to src/checkpoint");
    accepted("src/checkpoint/a.c", "\"checkpoint/state/match.h\"");
}

YK_TEST(layers_of_comm)
{
    refused("src/comm/store/a.c", "\"comm/job/watch.h\"", "comm/store must not know");
    refused("src/comm/job/a.c", "\"comm/group_state.h\"", "comm/job must not know");
    refused("src/comm/a.c", "\"comm/two_level/two_level.h\"", "comm must not know");
    refused("src/comm/helpers/a.c", "<string.h>", "is no folder of src/comm");
    accepted("src/comm/job/a.c", "\"comm/store/client.h\"");
    accepted("src/comm/a.c", "\"comm/job/watch.h\"");
    accepted("src/comm/shm/a.c", "\"comm/call.h\"");
}

YK_TEST(layers_refuse_vendor_headers_elsewhere)
{
    refused("src/model/a.c", "<oneapi/dnnl/dnnl.h>", "belongs to src/device/cpu");
    refused("src/device/ref/a.c", "<dnnl.h>", "belongs to src/device/cpu");
    refused("src/data/a.c", "<zip.h>", "belongs to src/io");
    refused("src/comm/a.c", "<cjson/cJSON.h>", "belongs to src/io checkpoint report");
    refused("cli/a.c", "<openssl/evp.h>", "belongs to");
    refused("src/data/a.c", "<openssl/evp.h>", "belongs to src/io comm");
    refused("src/data/a.c", "<png.h>", "belongs to modules/image");
    refused("src/base/a.c", "<sqlite3.h>", "nobody's");
    refused("cli/a.c", "<png.h>", "belongs to modules/image");
    accepted("src/device/cpu/a.c", "<oneapi/dnnl/dnnl.h>");
    refused("src/report/a.c", "<curl/curl.h>", "belongs to src/base");
    refused("src/data/loader/a.c", "<archive.h>", "belongs to src/data/download");
    accepted("src/data/download/a.c", "<archive.h>");
    accepted("src/comm/a.c", "<openssl/evp.h>");
    accepted("src/comm/shm/a.c", "<sys/mman.h>");
}

YK_TEST(layers_keep_programs_outside)
{
    refused("cli/a.c", "\"base/error.h\"", "internal");
    refused("examples/a.c", "\"model/model.h\"", "internal");
    refused("include/yoke/a.h", "\"yoke/status.h\"", "internal");
    accepted("cli/a.c", "\"commands.h\"");
    accepted("examples/a.c", "<yoke/yoke.h>");
}

YK_TEST(layers_of_the_program)
{
    refused("cli/common/a.c", "\"options/options.h\"", "cli/common must not know");
    refused("cli/common/a.c", "\"cli.h\"", "cli/common must not know");
    refused("cli/options/a.h", "\"setup/setup.h\"", "cli/options must not know");
    refused("cli/launch/a.c", "\"setup/setup.h\"", "cli/launch must not know");
    refused("cli/setup/a.c", "\"evaluate/subject.h\"", "cli/setup must not know");
    refused("cli/bench/a.c", "\"evaluate/subject.h\"", "private to cli/evaluate");
    refused("cli/options/a.c", "\"options.h\"", "write the path from cli/");
    accepted("cli/options/a.c", "\"cli.h\"");
    accepted("cli/options/a.c", "\"commands.h\"");
    accepted("cli/setup/a.c", "\"launch/launch.h\"");
    accepted("cli/evaluate/a.c", "\"evaluate/subject.h\"");
    accepted("cli/evaluate/a.c", "\"setup/setup.h\"");
    accepted("cli/main.c", "\"options/manual.h\"");
}

YK_TEST(layers_keep_modules_outside)
{
    refused("modules/mpi/a.c", "\"comm/group_state.h\"", "not the module's");
    refused("modules/mpi/a.c", "\"../../src/comm/call.h\"", "not the module's");
    refused("modules/gloo/a.cc", "\"../mpi/mpi.h\"", "not the module's");
    refused("modules/mpi/a.c", "<gloo/context.h>", "belongs to modules/gloo");
    refused("src/comm/a.c", "<mpi.h>", "belongs to modules/mpi");
    refused("modules/mpi/a.c", "<memory>", "nobody's");
    accepted("modules/mpi/a.c", "\"../common/nvidia.h\"");
    accepted("modules/mpi/a.c", "\"comm/engine/reduce.h\"");
    accepted("modules/mpi/a.c", "<mpi.h>");
    accepted("modules/gloo/a.cc", "<memory>");
    accepted("modules/image/a.c", "<png.h>");
    accepted("modules/cuda/a.c", "\"device/device.h\"");
    refused("modules/cuda/a.c", "\"model/model.h\"", "not the module's");
    refused("modules/cuda/a.c", "\"device/cpu/cpu.h\"", "not the module's");
    accepted("modules/cuda/gpu/a.c", "\"cuda.h\"");
    accepted("modules/cuda/conv/a.c", "\"libraries/cudnn.h\"");
    refused("modules/cuda/a.c", "\"gpu/driver.h\"", "is above it");
    refused("modules/cuda/conv/a.c", "\"gpu/gpu.h\"", "is above it");
    refused("modules/cuda/libraries/a.c", "\"conv/plan.h\"", "is above it");
}

YK_TEST(layers_know_every_folder)
{
    refused("src/helpers/a.c", "<string.h>", "is no layer");
    refused("src/base/a.c", "\"error.h\"", "write the path from src/");
}
