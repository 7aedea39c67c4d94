/* `yoke train --device cuda` on the fake driver: about ref's numbers, its own bits again, and one
 * line where there is no GPU to train on. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "../../cli/train_job.h"

static void assert_close(const char *name, const char *expected, const char *key, double tolerance)
{
    double value = last_value(name, key), right = last_value(expected, key);
    if (!(fabs(value - right) <= tolerance * fabs(right)))
        fail_msg("%s of %s is %.9g, of %s %.9g", key, name, value, expected, right);
}

/* On few pixels, because each thread of a GPU is simulated. */
static void train_well(const char *name, const char *options)
{
    char line[512];
    snprintf(line, sizeof line, "--data random:1x6x6,10 --augment none %s", options);
    if (train(name, line) != 0)
        fail_msg("%s", job.output);
}

/* The same numbers as on ref, but for the order of sums; the same bits in every order of streams,
 * and with an interruption. */
#define SETTINGS "--max-steps 5 --batch-size 16 --nproc 2 --clip-grad-norm 1 --ema 0.9"
YK_TEST(two_ranks_train_as_on_ref_and_resume)
{
    train_well("ref", SETTINGS " --device ref");
    train_well("cuda", SETTINGS " --device cuda");
    assert_contains(job.output, "cuda:0: Fake GPU 0, 4.0 GiB, compute capability 9.0");
    assert_close("cuda", "ref", "train_loss", 1e-4);
    assert_close("cuda", "ref", "val_loss", 1e-4);
    setenv("YOKE_SIM_SEED", "7", 1);
    train_well("again", SETTINGS " --device cuda");
    assert_same_file("again", "cuda", "model.pth");
    train_well("parts", SETTINGS " --device cuda --max-steps 2");
    train_well("parts", SETTINGS " --device cuda --resume auto");
    assert_same_file("parts", "cuda", "model.pth");
}

YK_TEST(there_is_a_rank_for_each_gpu_where_that_is_wanted)
{
    setenv("YK_FAKE_GPUS", "2", 1);
    train_well("given", SETTINGS " --device cuda");
    train_well("counted", "--max-steps 5 --batch-size 16 --clip-grad-norm 1 --ema 0.9 "
                          "--device cuda --nproc gpu");
    assert_contains(job.output, "2 ranks x 8");
    assert_same_file("counted", "given", "model.pth");
}

YK_TEST(without_graphs_the_bits_are_the_same)
{
    train_well("graphs", "--max-steps 4 --batch-size 16 --device cuda");
    setenv("YOKE_CUDA_GRAPHS", "0", 1);
    train_well("walked", "--max-steps 4 --batch-size 16 --device cuda");
    assert_same_file("graphs", "walked", "model.pth");
}

/* Another GPU, or other libraries, do not repeat the bits of the first part. */
YK_TEST(a_resumed_run_says_if_its_gpu_is_another)
{
    const char *options = "--max-steps 1 --batch-size 16 --device cuda";
    const char *more = "--max-steps 2 --batch-size 16 --device cuda --resume auto";
    const char *most = "--max-steps 3 --batch-size 16 --device cuda --resume auto";
    setenv("YK_FAKE_GPUS", "2", 1);
    train_well("run", options);
    train_well("run", more);
    assert_null(strstr(job.output, "its bits will differ"));
    setenv("YK_FAKE_GPU_COMPUTE", "80", 1);
    train_well("run", most);
    assert_contains(job.output, ", cuBLASLt 13.1.0 before, and now uses Fake GPU 0, 4.0 GiB, "
                                "compute capability 8.0");
    assert_contains(job.output, "it continues, but its bits will differ");
}

/* As of a part of a large GPU, where versions of the driver and of all libraries follow. */
YK_TEST(a_long_name_leaves_room_for_the_libraries)
{
    char output[4096];
    setenv("YK_FAKE_GPU_NAME", "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb+me.all",
           1);
    setenv("YK_FAKE_GPU_MEMORY", "1048576000", 1);
    setenv("YOKE_TEST_GPUS", "64", 1);
    int code = yk_test_command(output, sizeof output,
                               "%s bench step --device cuda:63 --arch resnet9 -b 2 --image-size 8 "
                               "--amp off --steps 1",
                               getenv("YOKE_PROGRAM"));
    if (code)
        fail_msg("%s", output);
    assert_contains(output, "cuda:63: NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb");
    assert_contains(output, ", cuDNN 9.19.0, cuBLASLt 13.1.0");
}

YK_TEST(ranks_have_gpus_of_their_own_or_say_that_they_share)
{
    setenv("YK_FAKE_GPUS", "2", 1);
    train_well("two", "--max-steps 1 --batch-size 16 --nproc 2 --device cuda");
    assert_null(strstr(job.output, "shares"));
    setenv("YK_FAKE_GPUS", "1", 1);
    train_well("one", "--max-steps 1 --batch-size 16 --nproc 2 --device cuda");
    assert_contains(job.output, "local rank 1 shares cuda:0 with other ranks, because there is 1 "
                                "GPU");
    assert_same_file("one", "two", "model.pth");
}

/* As under srun --gpus-per-task=1, where the same number means another GPU for each rank. */
YK_TEST(ranks_with_one_visible_gpu_each_do_not_say_that_they_share)
{
    setenv("YK_FAKE_GPUS", "1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
    train_well("given", "--max-steps 1 --batch-size 16 --nproc 2 --device cuda");
    assert_null(strstr(job.output, "shares"));
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    train_well("shared", "--max-steps 1 --batch-size 16 --nproc 2 --device cuda");
    assert_contains(job.output, "local rank 1 shares cuda:0 with other ranks");
}

YK_TEST(replicas_on_two_gpus)
{
    setenv("YK_FAKE_GPUS", "2", 1);
    train_well("dp", "--max-steps 2 --batch-size 16 --parallel dp --devices cuda:0,cuda:1");
    assert_contains(job.output, "cuda:0, cuda:1 (--parallel dp)");
    train_well("one", "--max-steps 2 --batch-size 16 --device cuda:1");
    assert_close("dp", "one", "train_loss", 1e-4);
}

/* Two of the GPUs; with one there is no such row. */
YK_TEST(scaling_measures_data_parallel_on_two_gpus)
{
    char output[8192];
    for (int gpus = 1; gpus <= 2; gpus++) {
        setenv("YK_FAKE_GPUS", gpus == 1 ? "1" : "2", 1);
        int code = yk_test_command(output, sizeof output,
                                   "cd %s && %s bench scaling --data random:3x8x8,3 --arch mlp "
                                   "--lr 0.01 --batch-size 8 --max-steps 2 --repeats 1 --ranks 1 "
                                   "--amp off --device cuda",
                                   yk_test_directory(), getenv("YOKE_PROGRAM"));
        if (code)
            fail_msg("%s", output);
        const char *absent = "yoke: there is no row for DataParallel: it needs 2 devices of the "
                             "type cuda, and there is 1\n";
        assert_int_equal(strstr(output, absent) != NULL, gpus == 1);
        assert_int_equal(strstr(output, "\nDataParallel x2 ") != NULL, gpus == 2);
    }
}

/* The reason is that of `yoke info`. */
YK_TEST(without_a_gpu_one_line_says_why)
{
    setenv("YK_FAKE_GPUS", "0", 1);
    assert_int_equal(train("none", "--device cuda"), 1);
    assert_contains(job.output, "yoke: device cuda: the NVIDIA driver finds no GPU");
    char output[8192], program[512];
    snprintf(program, sizeof program, "%s info", getenv("YOKE_PROGRAM"));
    assert_int_equal(yk_test_command(output, sizeof output, "%s", program), 0);
    assert_contains(output, "  cuda: the NVIDIA driver finds no GPU");
    setenv("YK_FAKE_GPUS", "2", 1);
    assert_int_equal(yk_test_command(output, sizeof output, "%s", program), 0);
    assert_contains(output, "  cuda:0: Fake GPU 0, ");
    assert_contains(output, "  cuda:1: Fake GPU 1, ");
}
