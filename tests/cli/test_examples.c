/* The example programs: alone, under the launcher, and started by hand. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[32 * 1024];

/* Runs a shell command in the test's own folder, $E standing for the folder of the examples and $Y
 * for the program; fails unless it exits with `expected`. */
static void run(int expected, const char *command)
{
    int code = yk_test_command(
        output, sizeof output, "cd %s && E=%s Y=%s && export OMP_NUM_THREADS=1 && %s",
        yk_test_directory(), getenv("YOKE_EXAMPLES"), getenv("YOKE_PROGRAM"), command);
    if (code != expected)
        fail_msg("%s: exit code %d: %s", command, code, output);
}

static bool is_there(const char *file)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), file);
    return access(path, R_OK) == 0;
}

YK_TEST(single_device)
{
    run(0, "$E/single_device --arch mlp --max-steps 10");
    assert_contains(output, "Start training...\n[Epoch 1/1] loss: ");
    assert_contains(output,
                    "\nFinished Training\nAccuracy of the network on the 1000 test images: ");
    assert_contains(output, "\nTotal elapsed time: ");
    assert_contains(output, " seconds, Train 1 epoch ");
    assert_true(is_there("cifar_net.pth"));
}

YK_TEST(data_parallel)
{
    run(0, "$E/data_parallel --arch mlp --max-steps 5 --devices cpu:0,cpu:1,cpu:2");
    assert_contains(output, "Let's use 3 devices!\nStart training...\n[Epoch 1/1] loss: ");
    assert_contains(output, "\nAccuracy of the network on the 1000 test images: ");
    assert_true(is_there("cifar_net.pth"));
    run(1, "$E/data_parallel --arch mlp --max-steps 5 --devices gpu:0");
    assert_contains(output, "gpu:0");
}

YK_TEST(ddp_mixed_precision)
{
    run(0, "$Y run -n 2 -- $E/ddp_mixed_precision --arch mlp --max-steps 5");
    assert_contains(output, "[rank 0] [Epoch 1/1] loss: ");
    assert_contains(output, "[rank 0] Accuracy of the network on the 1000 test images: ");
    assert_null(strstr(output, "[rank 1]"));
    assert_true(is_there("cifar_net.pth"));
}

YK_TEST(trainer_trains_and_resumes)
{
    run(0, "$Y run -n 2 -- $E/trainer");
    assert_contains(output, "[rank 0] After step 150: validation accuracy ");
    assert_null(strstr(output, "[rank 1]"));
    assert_true(is_there("run-trainer/checkpoint-3.pth"));
    run(0, "rm run-trainer/checkpoint-3.pth && $E/trainer"); /* continues from the second epoch */
    assert_contains(output, "After step 150: validation accuracy ");
    assert_true(is_there("run-trainer/checkpoint-3.pth"));
    assert_true(is_there("run-trainer/checkpoint-1.pth"));
}

/* Stops within the first epoch; one process. */
YK_TEST(own_network_resumes_bit_for_bit)
{
    run(0, "$E/own_network --output whole --max-steps 10");
    assert_contains(output, "Step 10: loss ");
    run(0, "$E/own_network --output parts --max-steps 4");
    assert_contains(output,
                    "Stopped after step 4; the same command with more --max-steps continues\n");
    assert_true(is_there("parts/checkpoint-step-4.pth"));
    run(0, "$E/own_network --output parts --max-steps 10");
    run(0, "cmp whole/checkpoint-step-10.pth parts/checkpoint-step-10.pth");
}

/* Stops after the last step of the first epoch, before its evaluation; two ranks. */
YK_TEST(own_network_resumes_bit_for_bit_on_two_ranks)
{
    run(0, "$Y run -n 2 -- $E/own_network --output whole --max-steps 52");
    assert_contains(output, "[rank 0] Epoch [1/3]: validation loss ");
    assert_null(strstr(output, "[rank 1]"));
    run(0, "$Y run -n 2 -- $E/own_network --output parts --max-steps 50");
    assert_null(strstr(output, "Epoch [1/3]"));
    run(0, "$Y run -n 2 -- $E/own_network --output parts --max-steps 52");
    assert_contains(output, "[rank 0] Epoch [1/3]: validation loss ");
    run(0, "cmp whole/checkpoint-step-52.pth parts/checkpoint-step-52.pth");
    run(1, "$E/own_network --output parts --epochs 1 --data /no/such/folder");
    assert_contains(output, "/no/such/folder");
}

YK_TEST(ddp_alone)
{
    run(0, "$E/ddp --arch mlp --epochs 2 --max-steps 10");
    assert_contains(output, ">>> Training on 1 processes\nEpoch [1/2], Step [10/10], Loss: ");
    assert_contains(output, "ms, Time training: ");
    assert_contains(output, "Epoch [2/2], Validation accuracy: ");
    assert_contains(output, ">>> Training complete in: ");
    assert_true(is_there("checkpoint/1GPU_2epoch.checkpoint"));
    run(0, "$E/ddp --arch mlp -e 1 -c ./checkpoint/1GPU_2epoch.checkpoint --max-steps 1");
}

YK_TEST(ddp_on_two_ranks)
{
    run(0, "$Y run -n 2 -- $E/ddp --arch mlp --epochs 1");
    assert_contains(output, "[rank 0] >>> Training on 2 processes");
    assert_contains(output, "[rank 0] Epoch [1/1], Step [30/40], Loss: ");
    assert_null(strstr(output, "[rank 1]"));
    assert_true(is_there("checkpoint/2GPU_1epoch.checkpoint"));
}

YK_TEST(resnet18_cifar10_started_by_hand)
{
    char command[1024];
    int port = yk_test_free_port();
    snprintf(command, sizeof command,
             "A='--init_method tcp://127.0.0.1:%d --world_size 2 --custom_data true --epochs 1 "
             "--lr 0.001 --samples 520 --width 16 --enable_gpu=false --of_the_platform 1' && "
             "{ $E/resnet18_cifar10 $A --rank 1 & } && $E/resnet18_cifar10 $A --rank=0 && wait",
             port);
    run(0, command);
    assert_contains(output, "validation accuracy may range from 0.4 to 0.6.\n");
    assert_contains(output, "train | epoch: 1 | loss: ");
    assert_contains(output, "val | epoch: 1 | loss: ");
    assert_true(is_there("output_dir/epoch_1.pth"));
    assert_null(strstr(output, "GPU"));
}

/* Only who asks for a GPU by the original's flag is told of the other one. */
YK_TEST(resnet18_cifar10_says_how_a_gpu_is_chosen)
{
    run(0, "A='--custom_data true --width 1 --samples 140 --epochs 1' && "
           "$E/resnet18_cifar10 $A && $E/resnet18_cifar10 $A --enable_gpu true --device ref");
    assert_null(strstr(output, "GPU"));
    run(0, "$E/resnet18_cifar10 --enable_gpu true --custom_data true --width 16 --samples 140 "
           "--epochs 1");
    assert_contains(output, "--enable_gpu true: it is --device that chooses, here the CPU");
}

YK_TEST(examples_say_what_is_wrong)
{
    run(1, "$E/ddp --data /no/such/folder");
    assert_contains(output, "/no/such/folder");
    run(1, "$E/resnet18_cifar10 --data_url /no/such/folder");
    assert_contains(output, "/no/such/folder");
}

/* Three classes of pictures of other sizes than the networks', and data that is not there. */
YK_TEST(examples_take_pictures_in_folders)
{
    static const char *const commands[] = {
        "$E/single_device --arch mlp",       "$E/data_parallel --arch mlp",
        "$E/ddp_mixed_precision --arch mlp", "$E/ddp --arch mlp --epochs 1",
        "$E/own_network --epochs 1",         "$E/trainer --epochs 1"};
    char command[160];
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    run(0, "for c in grey rgb_420 rgb_444; do for s in train val; do mkdir -p d/$s/$c; for i in 1 "
           "2 3 4; do "
           "cp $YOKE_SOURCE/tests/fuzz/corpus/jpeg/$c d/$s/$c/$i.jpg; done; done; done");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(command, sizeof command, "%s --data folder:d", commands[i]);
        run(0, command);
        assert_non_null(strcasestr(output, "accuracy"));
    }
    run(1, "$E/trainer --data folder:/no/such/folder");
    assert_contains(output, "/no/such/folder");
    run(1, "$E/trainer --data cifar10:/no/such/folder");
    assert_contains(output, "/no/such/folder");
    assert_null(strstr(output, "cifar10:/no"));
}

/* Exit code 2 and one line, before anything is done. */
static void refused(const char *command, const char *words)
{
    run(2, command);
    assert_contains(output, words);
    assert_string_equal(strchr(output, '\n'), "\n");
}

YK_TEST(examples_check_their_arguments)
{
    static const char *const alike[] = {"single_device", "data_parallel", "ddp_mixed_precision"};
    char command[128];
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        snprintf(command, sizeof command, "$E/%s --arch no_such_network", alike[i]);
        refused(command, "--arch no_such_network: expected the name of a network");
        snprintf(command, sizeof command, "$E/%s --max-steps ten", alike[i]);
        refused(command, "--max-steps ten: expected a whole number from 1");
        snprintf(command, sizeof command, "$E/%s --max-steps -3", alike[i]);
        refused(command, "--max-steps -3: expected");
        snprintf(command, sizeof command, "$E/%s synthetic", alike[i]);
        refused(command, "unexpected argument synthetic");
        snprintf(command, sizeof command, "$E/%s --bogus", alike[i]);
        refused(command, "unexpected argument --bogus");
    }
}

/* Two inputs of a program's own data set; neither tells the label alone. */
YK_TEST(own_data_is_learnt)
{
    run(0, "$E/own_data --epochs 3");
    assert_contains(output, "\nEpoch 3: training loss 0.");
    double accuracy = strtod(strstr(strstr(output, "Epoch 3"), "accuracy ") + 9, NULL);
    assert_true(accuracy > 85);
}

YK_TEST(own_data_resumes_bit_for_bit_on_two_ranks)
{
    run(0, "$Y run -n 2 -- $E/own_data --output whole --max-steps 30");
    run(0, "$Y run -n 2 -- $E/own_data --output parts --max-steps 11");
    run(0, "$Y run -n 2 -- $E/own_data --output parts --max-steps 30");
    run(0, "cmp whole/model.pth parts/model.pth");
}

/* Each has a folder of its own, so that none resumes from another's checkpoints. */
YK_TEST(examples_may_be_started_one_after_the_other)
{
    run(0, "$E/trainer --epochs 1 && $E/own_network --max-steps 2 && $E/own_data --max-steps 2");
    assert_true(is_there("run-trainer/model.pth"));
    assert_true(is_there("run-own-network/checkpoint-step-2.pth"));
    assert_true(is_there("run-own-data/checkpoint-step-2.pth"));
}

YK_TEST(gpt_learns_to_write)
{
    run(0,
        "$E/gpt --layers 1 --width 32 --block-size 32 --batch-size 16 --max-steps 100 --length 20");
    assert_contains(output, "\nStep 100: training loss ");
    assert_true(strtod(strstr(output, "Step 100: training loss ") + 24, NULL) < 3.2);
    run(0, "$Y run -n 2 -- $E/gpt --max-steps 2 --length 5");
    assert_contains(output, "[rank 0] Step 2: training loss ");
}

YK_TEST(translate_learns_to_read_numbers)
{
    run(0, "$E/translate --layers 1 --width 32 --max-steps 200");
    assert_contains(output, "\nStep 200: training loss ");
    assert_true(strtod(strstr(output, "Step 200: training loss ") + 24, NULL) < 2.2);
    assert_contains(output, " of 200 numbers that it has not seen are right\n");
    run(0, "$Y run -n 2 -- $E/translate --layers 1 --width 8 --heads 2 --max-steps 2");
    assert_contains(output, "[rank 0] Step 2: training loss ");
}

YK_TEST(gpt_reads_a_text)
{
    run(0, "yes 'ab c' | head -c 2000 > text; $E/gpt --text text --width 16 --max-steps 2 --length "
           "20");
    assert_contains(output, "\na"); /* what it writes begins as the text does */
    run(1, "$E/gpt --text nowhere");
    assert_contains(output, "nowhere: No such file or directory");
    run(1, "$E/gpt --text .");
    assert_contains(output, ".: Is a directory");
    run(2, "printf 'ab c' > text; $E/gpt --text text --block-size 4");
    assert_contains(output, "the text has 4 characters, expected more than --block-size");
}

YK_TEST(llama_learns_to_write)
{
    run(0, "$E/llama --layers 1 --width 32 --block-size 32 --batch-size 16 --max-steps 100 "
           "--length 20 --save saved");
    assert_contains(output, "\nStep 100: training loss ");
    assert_true(strtod(strstr(output, "Step 100: training loss ") + 24, NULL) < 3.2);
    run(0, "cat saved/config.json");
    assert_contains(output, "\"intermediate_size\": 88,");
    assert_contains(output, "\"tie_word_embeddings\": false");
    run(0, "$Y checkpoint show saved/model.safetensors");
    assert_contains(output, "model.layers.0.self_attn.q_proj.weight");
    assert_contains(output, "lm_head.weight");
    run(0, "$Y run -n 2 -- $E/llama --max-steps 2 --length 5");
    assert_contains(output, "[rank 0] Step 2: training loss ");
}

YK_TEST(llama_ties_its_head)
{
    run(0, "$E/llama --tied yes --width 16 --max-steps 2 --length 5 --save saved");
    run(0, "$Y checkpoint show saved/model.safetensors");
    assert_null(strstr(output, "lm_head.weight"));
    run(0, "$E/llama --kv-heads 2 --width 16 --max-steps 2 --length 5");
    refused("$E/llama --kv-heads 3", "--kv-heads 3: expected a divisor of the 4 heads");
    refused("$E/llama --tied maybe", "--tied maybe: expected yes or no");
    run(1, "$E/llama --width 16 --max-steps 1 --length 1 --save nowhere/saved");
    assert_string_equal(output, "nowhere/saved/config.json: No such file or directory\n");
    run(1, "$E/llama --width 16 --max-steps 1 --length 1 --save /dev/null");
    assert_string_equal(output, "/dev/null/config.json: Not a directory\n");
}

YK_TEST(own_operator_passes_its_check_and_is_learnt_with)
{
    run(0, "$E/own_operator");
    assert_contains(output, "swish passes yoke's tests of operators");
    assert_contains(output, "Step 500: loss 0.000");
}

YK_TEST(own_network_checks_its_flags)
{
    refused("$E/own_network --max-steps 0", "--max-steps 0: expected a whole number from 1");
    refused("$E/own_network --epochs ten", "--epochs ten: expected a whole number from 1");
    refused("$E/own_network run", "unexpected argument run");
    run(1, "$E/own_network --epochs 1 --output /dev/null"); /* before the first step */
    assert_string_equal(output, "/dev/null: Not a directory\n");
    run(1, "$E/own_network --epochs 1 --output /proc/nowhere/run");
    assert_string_equal(output, "/proc/nowhere/run: No such file or directory\n");
    run(0, "$E/own_network --max-steps 1 --output new/folders/ && ls new/folders/model.pth");
    refused("$E/trainer --epochs 0", "--epochs 0: expected a whole number from 1");
}

/* What the example prints, without times. */
static void run_on(const char *device, const char *command)
{
    char line[512];
    snprintf(line, sizeof line,
             "rm -rf run-* && %s --device %s > out && sed '/ seconds\\| s$/d;s/ | data.*//;s/, "
             "Time.*//' "
             "out",
             command, device);
    run(0, line);
}

/* The simulated device has ref's kernels. */
static void same_on_sim(const char *command)
{
    static char expected[sizeof output];
    run_on("ref", command);
    memcpy(expected, output, sizeof output);
    assert_true(strlen(expected) > 0);
    run_on("sim", command);
    assert_string_equal(output, expected);
}

YK_TEST(examples_compute_the_same_on_any_device)
{
    same_on_sim("$E/own_operator");
    same_on_sim("$E/own_data --epochs 1");
    same_on_sim("$E/gpt --layers 1 --heads 2 --width 8 --block-size 8 --batch-size 4 --max-steps 3 "
                "--length 4");
    same_on_sim("$E/translate --layers 1 --heads 2 --width 8 --batch-size 4 --max-steps 3");
    same_on_sim("$E/llama --layers 1 --heads 2 --kv-heads 1 --width 8 --block-size 8 --batch-size "
                "4 --max-steps 3 --length 4");
    same_on_sim("$E/resnet18_cifar10 --custom_data true --width 1 --samples 140 --epochs 1 "
                "--enable_gpu false");
}

YK_TEST(examples_run_on_any_device)
{
    run_on("sim", "$E/single_device --arch mlp --max-steps 1");
    assert_contains(output, "\nAccuracy of the network on the 1000 test images: ");
    run_on("sim", "$E/data_parallel --arch mlp --max-steps 1 --devices cpu:0,cpu:1");
    assert_contains(output, "\nAccuracy of the network on the 1000 test images: ");
    run_on("sim", "$E/own_network --max-steps 1");
    assert_contains(output, "Stopped after step 1; ");
    run(1, "$E/trainer --device sum");
    assert_contains(output, "sum");
}

YK_TEST(distributed_examples_run_on_any_device)
{
    run_on("sim", "$Y run -n 2 -- $E/ddp --arch mlp --epochs 1 --max-steps 1");
    assert_contains(output, "[rank 0] Epoch [1/1], Validation accuracy: ");
    run_on("sim", "$Y run -n 2 -- $E/ddp_mixed_precision --arch mlp --max-steps 1");
    assert_contains(output, "[rank 0] Accuracy of the network on the 1000 test images: ");
}

YK_TEST(examples_show_their_options)
{
    static const char *const alike[] = {"single_device", "data_parallel", "ddp_mixed_precision",
                                        "ddp",           "own_network",   "trainer"};
    char command[128], usage[128];
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        snprintf(command, sizeof command, "$E/%s --help", alike[i]);
        snprintf(usage, sizeof usage, "usage: %s [OPTION]...\n", alike[i]);
        run(0, command);
        assert_contains(output, usage);
        assert_contains(output, "  --data DATA ");
    }
    run(0, "$E/ddp --help");
    assert_contains(output, "  -b, --batch-size N     images per step");
    assert_contains(output, "  -c, --checkpoint FILE  load the weights");
}

YK_TEST(ddp_checks_its_flags)
{
    refused("$E/ddp --bogus", "unexpected argument --bogus");
    refused("$E/ddp --epochs", "--epochs needs a value");
    refused("$E/ddp --epochs ten", "--epochs ten: expected a whole number from 1");
    refused("$E/ddp --epochs 0", "--epochs 0: expected");
    refused("$E/ddp --batch-size 99999999999999999999", "--batch-size 99999999999999999999: exp");
    refused("$E/ddp --max-steps 1.5", "--max-steps 1.5: expected a whole number from 1");
    refused("$E/ddp --max-steps 0", "--max-steps 0: expected a whole number from 1");
    refused("$E/ddp --arch=vgg", "--arch vgg: expected the name of a network");
    refused("$E/ddp leftover", "unexpected argument leftover");
    run(2, "$Y run -n 2 -- $E/ddp --batch-size 1");
    assert_contains(output, "[rank 0] --batch-size 1 is less than one image for each of 2");
}

YK_TEST(resnet18_cifar10_checks_its_flags)
{
    refused("$E/resnet18_cifar10 --epochs many", "--epochs many: expected a whole number from 1");
    refused("$E/resnet18_cifar10 --epochs=1.5", "--epochs 1.5: expected a whole number");
    refused("$E/resnet18_cifar10 --samples 99999999999999999999", "expected a whole number from 1");
    refused("$E/resnet18_cifar10 --width -4", "--width -4: expected a whole number from 1");
    refused("$E/resnet18_cifar10 --lr nan", "--lr nan: expected a number above 0");
    refused("$E/resnet18_cifar10 --custom_data yes", "--custom_data yes: expected true or false");
    refused("$E/resnet18_cifar10 --rank 2 --world_size 2", "expected a rank below --world_size 2");
    refused("$E/resnet18_cifar10 --epochs", "--epochs: expected a value");
    refused("$E/resnet18_cifar10 --unknown --epochs many", "--epochs many: expected");
    run(1, "$E/resnet18_cifar10 --custom_data true --width 1 --samples 140 --output_dir /dev/null");
    assert_contains(output, "\n/dev/null: Not a directory\n");
    assert_null(strstr(output, "train | epoch"));
}
