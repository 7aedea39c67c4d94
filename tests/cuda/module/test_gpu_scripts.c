/* The scripts for machines with a GPU: they say where there is none, and run on the fake one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "harness.h"

static char output[16384];

static void need_python(void)
{
#if defined __SANITIZE_ADDRESS__
    print_message("Python loads the fake driver without the sanitizer's runtime\n");
    skip();
#endif
    if (yk_test_command(output, sizeof output, "python3 --version") != 0) {
        print_message("there is no python3\n");
        skip();
    }
}

/* Runs a command in the test's folder. */
static int run(const char *command)
{
    return yk_test_command(output, sizeof output, "cd %s && %s", yk_test_directory(), command);
}

static void succeed(const char *command)
{
    if (run(command) != 0)
        fail_msg("%s", output);
}

YK_TEST(without_a_gpu_they_say_so_in_one_line)
{
    need_python();
    setenv("YK_FAKE_GPUS", "0", 1);
    static const char *const scripts[] = {"tests/gpu/verify", "bench/gpu/run"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(yk_test_command(output, sizeof output,
                                         "cd %s && $YOKE_SOURCE/%s $YOKE_BUILD",
                                         yk_test_directory(), scripts[i]),
                         0);
        assert_contains(output, "there is no GPU here");
        assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1);
    }
}

/* A name that is mistyped would look like a success. */
YK_TEST(they_refuse_what_they_do_not_know)
{
    need_python();
    assert_int_equal(run("$YOKE_SOURCE/tests/gpu/verify $YOKE_BUILD --only copies,kernel"), 2);
    assert_contains(output, "--only copies,kernel: expected some of machine,copies,kernels,");
    assert_int_equal(run("$YOKE_SOURCE/bench/gpu/run $YOKE_BUILD --only resnet18"), 2);
    assert_contains(output, "--only resnet18: expected some of resnet18-cifar,resnet50,");
    assert_int_equal(run("$YOKE_SOURCE/bench/gpu/run $YOKE_BUILD --modes compiled"), 2);
    assert_contains(output, "--modes compiled: expected some of eager,compile,");
}

/* Sections that take long are left to a real GPU. */
YK_TEST(verify_runs)
{
    need_python();
    succeed("$YOKE_SOURCE/tests/gpu/verify $YOKE_BUILD --small --output out "
            "--only "
            "machine,description,copies,kernels,graphs,sums,truth,batches,layers,ranks && "
            "grep -c '^  \"result\"' out/verify.json && test -s out/verify.log && "
            "tar tzf out/plans.tar.gz | grep -c cache/ >/dev/null && test ! -e runs");
    assert_contains(output, "== 10 sections passed, 0 failed: none; out/verify.json\n10\n");
}

YK_TEST(verify_runs_what_no_gpu_has_run)
{
    need_python();
    succeed("$YOKE_SOURCE/tests/gpu/verify $YOKE_BUILD --small --output out "
            "--only sanitizer,attention,fp16,beside,replicas,endurance");
    assert_contains(output, "two_devices_in_f64_equal_one: passed");
    assert_contains(output, "mlp: losses of two devices differ from one device's by ");
    assert_contains(output, "100 steps; at most ");
    assert_contains(output, "resnet9 batch 2: measured ");
    assert_contains(output, "== 6 sections passed, 0 failed: none");
}

/* Two GPUs, with NCCL's calls on the fake driver. */
YK_TEST(verify_runs_on_several_gpus)
{
    need_python();
    setenv("YK_FAKE_GPUS", "2", 1);
    char library[4096];
    snprintf(library, sizeof library, "%s/tests/modules/libyoke_fake_nccl.so",
             getenv("YOKE_BUILD"));
    setenv("YOKE_TEST_NCCL", library, 1);
    succeed("$YOKE_SOURCE/tests/gpu/verify $YOKE_BUILD --small --output out --only several");
    assert_contains(output, "sgd: losses of 2 GPUs, ranks, differ from one GPU's by ");
    assert_contains(output, "sgd: losses of 2 GPUs, DataParallel, differ from one GPU's by ");
    assert_contains(output, " s after rank 1 was killed: rank 1 (pid ");
    assert_contains(output, "nccl, in the device's streams");
    assert_contains(output, "== 1 sections passed, 0 failed: none");
}

/* Python, to which the folder of the source is the first argument. */
#define LOAD_VERIFY                                                                                \
    "import os, sys, time\n"                                                                       \
    "from importlib.machinery import SourceFileLoader\n"                                           \
    "sys.dont_write_bytecode = True\n"                                                             \
    "verify = SourceFileLoader('verify', sys.argv[1] + '/tests/gpu/verify').load_module()\n"

/* The end of such a script: runs verify, with these options too, on the second argument, the folder
 * of the build. */
#define RUN_VERIFY(options)                                                                        \
    "sys.argv = ['verify', sys.argv[2], '--small', '--output', 'out', " options "]\n"              \
    "sys.exit(verify.main())\n"

/* A case that is new is in the script's list, and a program in what is packed. */
YK_TEST(verify_runs_all_cases_of_operators)
{
    need_python();
    static const char script[] = LOAD_VERIFY
        "import re\n"
        "def read(name):\n"
        "    with open(os.path.join(sys.argv[1], name)) as file:\n"
        "        return file.read()\n"
        "cases = set(re.findall(r'YK_TEST\\((operators_\\w+)\\)',\n"
        "                       read('tests/cuda/module/test_cuda_device.c')))\n"
        "packed = re.search('^tests=\"(.*)\"', read('tests/gpu/pack'), re.M)[1].split()\n"
        "programs = set(re.findall(r'\"(test_\\w+)\"', read('tests/gpu/verify')))\n"
        "print('cases:', sorted(cases ^ set(verify.OPERATORS)), len(cases))\n"
        "print('programs:', sorted(programs ^ set(packed)), len(packed))\n";
    yk_test_write_file(yk_test_path("cases.py"), script, sizeof script - 1);
    succeed("python3 -W ignore cases.py $YOKE_SOURCE");
    assert_contains(output, "cases: [] 14\n");
    assert_contains(output, "programs: [] 15\n");
}

/* Which it launches without the module. */
YK_TEST(verify_knows_the_arguments_of_kernels)
{
    need_python();
    static const struct {
        const char *name;
        size_t bytes;
    } structs[] = {{"MAP", sizeof(yki_cuda_map_args)},
                   {"MEASURE", sizeof(yki_cuda_norm_measure_args)},
                   {"APPLY", sizeof(yki_cuda_norm_apply_args)},
                   {"BACKWARD", sizeof(yki_cuda_norm_backward_args)},
                   {"POOL", sizeof(yki_cuda_pool_args)},
                   {"DROPOUT", sizeof(yki_cuda_draw_args)},
                   {"SPAN", sizeof(yki_span)},
                   {"CHUNK", sizeof(yki_sweep_chunk)},
                   {"SWEEP", sizeof(yki_cuda_sweep_args)}};
    static const char script[] =
        LOAD_VERIFY "import ctypes\n"
                    "for name in sys.argv[2:]:\n"
                    "    print(name, ctypes.sizeof(getattr(verify.gpu, name)))\n";
    yk_test_write_file(yk_test_path("sizes.py"), script, sizeof script - 1);
    succeed("python3 -W ignore sizes.py $YOKE_SOURCE MAP MEASURE APPLY BACKWARD POOL DROPOUT SPAN "
            "CHUNK SWEEP");
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s %zu\n", structs[i].name, structs[i].bytes);
        assert_contains(output, line);
    }
}

/* With YK_GROWS, memory grows with the steps; else it only is larger than while plans are made. */
YK_TEST(verify_looks_for_memory_that_grows_with_the_steps)
{
    need_python();
    static const char script[] =
        LOAD_VERIFY "class Run:\n"
                    "    small, used, has_plans = True, 0, False\n"
                    "    def driver(self, name, *arguments):\n"
                    "        if name == 'cuMemGetInfo':\n"
                    "            free, total = (pointer._obj for pointer in arguments)\n"
                    "            free.value, total.value = (1 << 30) - self.used, 1 << 30\n"
                    "    def losses(self, steps, *_, **__):\n"
                    "        self.used = 100 << 20\n"
                    "        time.sleep(0.1 if self.has_plans else 1)\n"
                    "        self.has_plans, self.used = True, 500 << 20\n"
                    "        for _ in range(20):\n"
                    "            time.sleep(0.02)\n"
                    "            self.used += (1 << 20) * ('YK_GROWS' in os.environ)\n"
                    "        return [1.0] * steps\n"
                    "try:\n"
                    "    print('grown:', verify.endurance(Run())['mib_in_the_second_half'] - 500)\n"
                    "except verify.gpu.Failure as failure:\n"
                    "    print('failed:', failure)\n";
    yk_test_write_file(yk_test_path("memory.py"), script, sizeof script - 1);
    succeed("python3 -W ignore memory.py $YOKE_SOURCE");
    assert_contains(output, "grown: 0\n");
    succeed("YK_GROWS=1 python3 -W ignore memory.py $YOKE_SOURCE");
    assert_contains(output, "failed: {");
}

/* As where memory was too short. */
YK_TEST(verify_wants_plans_that_were_measured)
{
    need_python();
    static const char script[] = LOAD_VERIFY
        "class Run:\n"
        "    small, cache, env = True, 'cache', {}\n"
        "    def step(self, *job, **_):\n"
        "        return {'seconds_with_start': 1}\n"
        "os.makedirs('cache/yoke/plans/gpu')\n"
        "with open('cache/yoke/plans/gpu/1.plan', 'w') as file:\n"
        "    file.write('yoke plan 1\\nconv2d bfloat16 x 4,8,16,16 w 32,8,3,3 stride 1 padding 1 "
        "'\n"
        "               'dilation 1\\n0.000 0123456789abcdef\\n{}')\n"
        "try:\n"
        "    verify.plans(Run())\n"
        "except verify.gpu.Failure as failure:\n"
        "    print(failure)\n";
    yk_test_write_file(yk_test_path("plans.py"), script, sizeof script - 1);
    succeed("python3 -W ignore plans.py $YOKE_SOURCE");
    assert_contains(output, "1 plans were kept without being measured: conv2d bfloat16 x 4,8,");
}

/* Two cases of operators are enough: all of them run as tests of their own (test_cuda_device.c). */
YK_TEST(verify_goes_on_after_a_failure)
{
    need_python();
    static const char script[] =
        LOAD_VERIFY "verify.OPERATORS = ('operators_elementwise', 'operators_pools')\n" RUN_VERIFY(
            "'--only', 'operators,copies'");
    yk_test_write_file(yk_test_path("operators.py"), script, sizeof script - 1);
    setenv("YK_FAKE_FAULT", "add_f32:1", 1);
    assert_int_equal(run("python3 -W ignore operators.py $YOKE_SOURCE $YOKE_BUILD"), 1);
    assert_contains(output, "operators_pools: passed");
    assert_contains(output, "FAILED");
    assert_contains(output, "== 1 sections passed, 1 failed: operators");
}

/* Its programs are killed, and the result is written. */
YK_TEST(verify_ends_a_section_that_takes_too_long)
{
    need_python();
    assert_int_equal(run("$YOKE_SOURCE/tests/gpu/verify $YOKE_BUILD --small --output out "
                         "--only copies,plans --minutes 0.025"),
                     1);
    assert_contains(output, "FAILED: ");
    assert_contains(output, "== 1 sections passed, 1 failed: plans");
}

/* The first one has taken all of the time. */
YK_TEST(verify_names_the_sections_for_which_no_time_was_left)
{
    need_python();
    static const char script[] =
        LOAD_VERIFY "def slow(run):\n"
                    "    time.sleep(1.5)\n"
                    "verify.SECTIONS = ((slow, 9, ''), (verify.copies, 9, ''), (verify.sums, 9, "
                    "''))\n" RUN_VERIFY("'--minutes', '0.04'");
    yk_test_write_file(yk_test_path("slow.py"), script, sizeof script - 1);
    assert_int_equal(run("python3 -W ignore slow.py $YOKE_SOURCE $YOKE_BUILD"), 1);
    assert_contains(output, "no time was left for some sections; to run them: --only copies,sums\n"
                            "== 1 sections passed, 0 failed: none");
}

/* As where the driver holds a process, which then is not killed: this one has left the group. */
YK_TEST(verify_waits_for_no_process_that_cannot_be_killed)
{
    need_python();
    static const char script[] = LOAD_VERIFY
        "def stuck(run):\n"
        "    run.command(['sh', '-c', 'echo started; setsid sleep 20 & sleep 20'], 1)\n"
        "verify.SECTIONS, verify.GRACE = ((stuck, 9, ''), (verify.copies, 9, '')), 1\n" RUN_VERIFY(
            "'--minutes', '0.2'");
    yk_test_write_file(yk_test_path("stuck.py"), script, sizeof script - 1);
    assert_int_equal(run("python3 -W ignore stuck.py $YOKE_SOURCE $YOKE_BUILD"), 1);
    assert_contains(output, "takes longer than 1 s; started\n");
    assert_contains(output, "== 1 sections passed, 1 failed: stuck");
}

/* As where a GPU never answers a call of the script's own. */
YK_TEST(verify_ends_where_a_call_does_not)
{
    need_python();
    static const char script[] = LOAD_VERIFY
        "def stuck(run):\n"
        "    os.makedirs(run.cache)\n"
        "    time.sleep(100)\n"
        "verify.SECTIONS, verify.GRACE = ((verify.copies, 9, ''), (stuck, 9, '')), 1\n" RUN_VERIFY(
            "'--minutes', '0.05'");
    yk_test_write_file(yk_test_path("stuck.py"), script, sizeof script - 1);
    assert_int_equal(
        run("python3 -W ignore stuck.py $YOKE_SOURCE $YOKE_BUILD; "
            "e=$?; grep -c gb_per_s out/verify.json; tar tzf out/plans.tar.gz; exit $e"),
        1);
    assert_contains(output, "FAILED: stuck does not return; the rest is given up\n1\ncache/\n");
}

/* The decoders of pictures are not built where their libraries are missing. */
YK_TEST(a_build_is_packed_with_the_modules_that_it_has)
{
    succeed("mkdir -p built/tests built/cuda && "
            "touch built/yoke built/libyoke.so.0 built/libyoke-nccl.so built/cuda/pool.fatbin && "
            "for name in $(sed -n 's/^tests=\"\\(.*\\)\"/\\1/p' $YOKE_SOURCE/tests/gpu/pack); do "
            "touch built/tests/$name; done");
    assert_int_equal(run("$YOKE_SOURCE/tests/gpu/pack built gpu.tar"), 1);
    assert_contains(output, "built has no libyoke-cuda.so: it was built without nvcc");
    succeed("touch built/libyoke-cuda.so && $YOKE_SOURCE/tests/gpu/pack built gpu.tar && "
            "tar tf gpu.tar");
    assert_contains(output, "pack: gpu.tar, ");
    assert_contains(output, "yoke-gpu/build/libyoke-nccl.so\n");
    assert_null(strstr(output, "libyoke-image.so"));
}

/* It needs nothing of the build folder. */
YK_TEST(a_packed_build_verifies)
{
    need_python();
    if (yk_test_command(output, sizeof output, "test -e $YOKE_BUILD/libyoke-cuda.so") != 0)
        skip_because("the build has no kernels for GPUs: there is no nvcc");
    succeed(
        "$YOKE_SOURCE/tests/gpu/pack $YOKE_BUILD gpu.tar && tar xf gpu.tar && "
        "yoke-gpu/tests/gpu/verify yoke-gpu/build --small --output out --only machine,kernels && "
        "LD_LIBRARY_PATH=yoke-gpu/build:yoke-gpu/build/libs ldd yoke-gpu/build/yoke");
    assert_contains(output, "== 2 sections passed, 0 failed: none");
    assert_contains(output, "=> yoke-gpu/build/libyoke.so.0");
    assert_contains(output, "=> yoke-gpu/build/libs/libdnnl.so");
}

/* A short run measures once, and FILE has the tables that are wanted. */
YK_TEST(the_comparison_shows_the_tables_that_are_wanted)
{
    need_python();
    succeed("$YOKE_SOURCE/bench/gpu/run $YOKE_BUILD --small --steps 2 --minutes 9 --tables data "
            "--json gpu.json && python3 -c \"import json; f = json.load(open('gpu.json')); "
            "print(f['rows'], f['settings']['repeats'], len(f['training'][0]['kept']))\" && test ! "
            "-e runs");
    assert_contains(output, "Training from data, images/s.");
    assert_contains(output, "[] 1 1\n");
    assert_null(strstr(output, "Full training steps"));
}

/* The program of a packed build needs the libraries that were packed. */
YK_TEST(the_comparison_knows_the_version_of_a_packed_build)
{
    need_python();
    static const char program[] = "#!/bin/sh\n"
                                  "case $1:$LD_LIBRARY_PATH in\n"
                                  "--version:*packed/libs*) echo yoke 9.8.7;;\n"
                                  "*) exit 1;;\n"
                                  "esac\n";
    succeed("mkdir -p packed/libs && touch packed/yoke && chmod +x packed/yoke");
    yk_test_write_file(yk_test_path("packed/yoke"), program, sizeof program - 1);
    succeed("$YOKE_SOURCE/bench/gpu/run packed --small --tables data --minutes 9 --json gpu.json "
            "2>/dev/null && grep '\"yoke\"' gpu.json");
    assert_contains(output, "\"yoke\": \"9.8.7\"");
}

YK_TEST(the_comparison_runs_without_pytorch_and_on_two_gpus)
{
    need_python();
    setenv("YK_FAKE_GPUS", "2", 1);
    succeed("$YOKE_SOURCE/bench/gpu/run $YOKE_BUILD --small --steps 2 "
            "--repeats 1 --modes '' --json gpu.json && grep -c '\"two\"' gpu.json");
    assert_contains(output, "Training from data, images/s.");
    assert_contains(output, "| mlp | 16 |");
    assert_contains(output, "Two ranks, ms a step.");
}
