/* `yoke checkpoint show` and `yoke convert`: what they print, write and refuse. */
#define _GNU_SOURCE
#include "yoke_line.h"

static void make_run(void)
{
    yoke_ends(0, "train --data synthetic --arch mlp --lr 0.01 --max-steps 2 --output run");
}

static int lines(void)
{
    int count = 0;
    for (const char *at = output; (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

static void assert_usage_error(const char *arguments, const char *words)
{
    int code = yoke(arguments);
    assert_int_equal(code, 2);
    assert_int_equal(lines(), 1);
    assert_contains(output, words);
}

YK_TEST(show_lists_tensors_and_the_rest)
{
    make_run();
    assert_int_equal(yoke("checkpoint show run"), 0);
    assert_contains(output, "fc1.weight  float32   (256, 3072)");
    assert_contains(output, "4 tensors, 789258 elements, 3.2 MB");
    assert_contains(output, "yoke.arch ");
    assert_contains(output, "optimizer.param_groups[0].lr ");
    assert_int_equal(yoke("checkpoint show --json --no_norms run/model.pth"), 0);
    assert_contains(output, "{\"name\": \"fc2.bias\", \"dtype\": \"float32\", \"shape\": [10]}");
    assert_null(strstr(output, "norm"));
}

/* A listing cut short by a full disk must not pass for a whole one. */
YK_TEST(output_that_cannot_be_written_is_an_error)
{
    make_run();
    assert_int_equal(yoke("checkpoint show run >/dev/full"), 1);
    assert_string_equal(output, "yoke checkpoint: cannot write to standard output: the output is "
                                "incomplete\n");
    assert_int_equal(yoke("info >/dev/full"), 1);
    assert_int_equal(yoke("--help=man >/dev/full"), 1);
    assert_int_equal(yoke("train --help >/dev/full"), 1);
    assert_int_equal(yoke("info >&-"), 0); /* nobody wants to hear it */
    assert_int_equal(yoke("evaluate run --nproc 2 >/dev/full"), 1);
    assert_contains(output, "yoke evaluate: cannot write to stdout: No space left on device");
    assert_int_equal(yoke("evaluate run --nproc 2 | true"), 0);
}

YK_TEST(converted_files_evaluate_alike)
{
    char first[512], second[512];
    make_run();
    assert_int_equal(yoke("convert run newest.safetensors"), 0); /* of the run's checkpoints */
    assert_int_equal(yoke("convert run/model.pth m.safetensors"), 0);
    assert_string_equal(output, "m.safetensors: 4 tensors, 3.2 MB\n");
    assert_int_equal(yoke("convert run/model.pth m.safetensors"), 0);
    assert_string_equal(output,
                        "m.safetensors: 4 tensors, 3.2 MB (the existing file was replaced)\n");
    assert_int_equal(yoke("evaluate --data synthetic --arch mlp run/model.pth"), 0);
    snprintf(first, sizeof first, "%s", strstr(output, " on synthetic"));
    assert_int_equal(yoke("evaluate --data synthetic --arch mlp m.safetensors"), 0);
    snprintf(second, sizeof second, "%s", strstr(output, " on synthetic"));
    assert_string_equal(first, second);
    assert_int_equal(yoke("train --data synthetic --arch mlp --max-steps 1 --output other "
                          "--lr 0.01 --checkpoint m.safetensors"),
                     0);
}

YK_TEST(convert_does_not_replace_a_checkpoint_by_its_weights)
{
    make_run();
    const char *rest = "run/checkpoint-step-2.pth: holds more than weights, which would be lost";
    assert_usage_error("convert run run/checkpoint-step-2.pth", rest);
    assert_usage_error("convert --dtype bf16 run/model.pth run/checkpoint-step-2.pth", rest);
    assert_int_equal(yoke("convert --dtype bf16 run/model.pth run/model.pth"), 0);
    assert_int_equal(yoke("train --output run --resume auto --max-steps 3"), 0);
}

/* The files of a run say what they hold, in both formats and after a conversion. */
YK_TEST(evaluate_needs_no_options_for_files_of_a_run)
{
    make_run();
    assert_int_equal(yoke("evaluate run"), 0);
    assert_contains(output, "checkpoint-step-2.pth: mlp on synthetic: loss ");
    assert_int_equal(yoke("evaluate run/checkpoint-step-2.pth"), 0);
    assert_int_equal(yoke("evaluate --data synthetic run/model.pth"), 0);
    assert_contains(output, "run/model.pth: mlp on synthetic: loss ");
    assert_int_equal(yoke("convert run/model.pth m.safetensors"), 0);
    assert_int_equal(yoke("convert m.safetensors back.pth"), 0);
    assert_int_equal(yoke("evaluate --data synthetic m.safetensors"), 0);
    assert_int_equal(yoke("evaluate --data synthetic back.pth"), 0);
    assert_contains(output, "back.pth: mlp on synthetic: loss ");
    assert_int_equal(yoke("checkpoint show run/model.pth"), 0);
    assert_contains(output, "run/model.pth (pth, mlp, 10 classes)");
}

/* With the loss that was trained with, whose options the checkpoint has recorded. */
YK_TEST(evaluate_repeats_the_validation_loss_of_the_run)
{
    static const char *const losses[] = {"--label-smoothing 0.2",
                                         "--mixup 0.2 --label-smoothing 0.1",
                                         "--classes 12 --label-smoothing 0.3"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char words[300], expected[64];
        snprintf(words, sizeof words,
                 "train --data synthetic --arch mlp --lr 0.02 --max-steps 2 --output %zu %s", i,
                 losses[i]);
        assert_int_equal(yoke(words), 0);
        snprintf(words, sizeof words, "%s/%zu/metrics.jsonl", yk_test_directory(), i);
        const char *found =
            strstr(yk_test_read_file(output, sizeof output, words), "\"val_loss\": ");
        assert_non_null(found);
        snprintf(expected, sizeof expected, "loss %.4f,", strtod(found + 12, NULL));
        snprintf(words, sizeof words, "evaluate %zu", i);
        assert_int_equal(yoke(words), 0);
        assert_contains(output, expected);
    }
}

/* Labels are numbers, whose meaning is in the names: here nothing is decoded. */
YK_TEST(evaluate_refuses_classes_that_the_network_does_not_know)
{
    make_run();
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && mkdir -p d/train/disc d/train/zebra d/val && "
                                     "touch d/train/disc/1.png d/train/zebra/1.png && "
                                     "cp -r d/train/zebra d/val",
                                     yk_test_directory()),
                     0);
    assert_int_equal(yoke("evaluate --data folder:d run"), 1);
    assert_contains(output, "d/val: class 1 is \"zebra\", which the network of "
                            "run/checkpoint-step-2.pth knows as \"");
}

/* The names of classes are a file's or a folder's, which a terminal must not act on. */
YK_TEST(errors_quote_no_control_characters)
{
    make_run();
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && name=$(printf 'a\\033[2J\\177b') && "
                                     "for split in train val; do mkdir -p \"d/$split/$name\" && "
                                     "touch \"d/$split/$name/1.png\" || exit; done",
                                     yk_test_directory()),
                     0);
    assert_int_equal(yoke("evaluate --data folder:d run"), 1);
    assert_contains(output, "d/val: class 0 is \"a?[2J?b\", which the network of ");
}

YK_TEST(show_prints_no_control_characters)
{
    static const char header[] = "{\"a\\u009b2J\\u00e9\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1]"
                                 ",\"data_offsets\":[0,4]}}";
    char bytes[8 + sizeof header - 1 + 4] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    yk_test_write_file(yk_test_path("a.safetensors"), bytes, sizeof bytes);
    assert_int_equal(yoke("checkpoint show a.safetensors"), 0);
    assert_contains(output, "  a?2J\xc3\xa9?[2J  float32 ");
    assert_contains(output, "1 tensor, 1 element, 4 bytes\n");
}

/* Characters and not bytes count for a column, and a name that is not shown whole takes no more
 * room than what is shown of it. */
YK_TEST(show_aligns_what_it_shows)
{
    static char text[2048], name[1000];
    memset(name, 'n', sizeof name - 1);
    int size = snprintf(text + 8, sizeof text - 8,
                        "{\"__metadata__\":{\"%s\":\"1\",\"k\":\"v\"},"
                        "\"\xc3\xa9\xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[1],"
                        "\"data_offsets\":[0,4]},\"abcde\":{\"dtype\":\"F32\",\"shape\":[1],"
                        "\"data_offsets\":[4,8]}}",
                        name);
    text[0] = (char)(size & 255);
    text[1] = (char)(size >> 8);
    yk_test_write_file(yk_test_path("a.safetensors"), text, 8 + (size_t)size + 8);
    assert_int_equal(yoke("checkpoint show --no-norms a.safetensors"), 0);
    assert_contains(output, "\n  \xc3\xa9\xc3\xa9     float32   (1)\n");
    assert_contains(output, "\n  abcde  float32   (1)\n");
    const char *item = strstr(output, "\n  k ");
    assert_non_null(item);
    assert_int_equal(strcspn(item + 1, "\n"), 2 + 511 + 2 + 1);
}

/* Where the network's classes have no names, their number is all that tells. */
YK_TEST(evaluate_warns_of_more_classes_than_the_data_has)
{
    static const char *const hint = "run/model.pth knows 8 classes, random";
    assert_int_equal(yoke("train --data random:3x8x8,8 --arch mlp --max-steps 1 --batch-size 32 "
                          "--lr 0.01 --output run"),
                     0);
    assert_int_equal(yoke("evaluate --data random:3x8x8,8 run/model.pth"), 0);
    assert_null(strstr(output, hint));
    assert_int_equal(yoke("evaluate --data random:3x8x8,5 run/model.pth"), 0);
    assert_contains(output, hint);
    assert_contains(output, "if they are others, the accuracy means nothing");
}

/* A server would count as a download: there is none, so it is the missing try that is seen. */
YK_TEST(evaluate_never_downloads_by_itself)
{
    make_run();
    setenv("XDG_CACHE_HOME", yk_test_directory(), 1);
    setenv("YOKE_CIFAR10_URL", "file:///nonexistent/cifar.tar.gz", 1);
    assert_int_equal(yoke("evaluate run/model.pth"), 1);
    assert_contains(output,
                    "the data of this evaluation, cifar10 (the default: the checkpoint names "
                    "none), is not here: name a folder with --data, or download it with "
                    "--data cifar10");
    assert_null(strstr(output, "nonexistent"));
    assert_int_equal(yoke("evaluate --data cifar10 run/model.pth"), 1); /* asked for */
    assert_contains(output, "cannot download CIFAR-10");
}

/* Files of others do not name their network; a file that is no checkpoint is refused for that. */
YK_TEST(evaluate_says_what_is_wrong_with_a_file)
{
    make_run();
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && cp run/model.pth bare.pth && "
                                     "sed -i 's/yoke\\.json/none.json/g' bare.pth",
                                     yk_test_directory()),
                     0);
    assert_int_equal(yoke("evaluate --data synthetic --arch mlp bare.pth"), 0);
    assert_int_equal(yoke("evaluate --data synthetic run/metrics.jsonl"), 1);
    assert_contains(
        output, "run/metrics.jsonl: offset 0: expected a .pth or safetensors file, found neither");
    assert_int_equal(lines(), 1);
}

YK_TEST(evaluate_recognises_a_network_by_its_tensors)
{
    make_run();
    assert_int_equal(yoke("convert run/model.pth bare.safetensors"), 0);
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && sed -i 's/\"yoke\"/\"nope\"/' bare.safetensors",
                                     yk_test_directory()),
                     0);
    assert_int_equal(yoke("evaluate --data synthetic bare.safetensors"), 0);
    assert_contains(output, "bare.safetensors: recognised by its tensors as mlp for 10 classes");
    assert_contains(output, "bare.safetensors: mlp on synthetic");
    assert_contains(output, ", top-5 ");
}

YK_TEST(evaluate_on_data_of_other_classes_says_so)
{
    make_run();
    assert_int_equal(yoke("evaluate run --data random:3x32x32,12"), 1);
    assert_contains(output, "yoke: run/");
    assert_contains(output, "does not fit the model: ");
    assert_contains(output, " (its weights are for 10 classes)\n");
    assert_null(strstr(output, "yoke: yoke:"));
}

YK_TEST(evaluate_counts_by_class)
{
    make_run();
    assert_int_equal(yoke("evaluate --data synthetic --per-class --confusion run/model.pth"), 0);
    assert_int_equal(lines(), 1 + 10 + 10);
    assert_contains(output, " of 100)\n");
}

YK_TEST(what_is_called_wrongly)
{
    assert_usage_error("convert", "expected two files, IN and OUT, found 0");
    assert_usage_error("convert a b", "b: expected a name in .pth, .pt or .safetensors");
    assert_usage_error("convert a b c", "unexpected argument 'c'");
    assert_usage_error("convert --dtype f8 a b.pth", "expected one of f32|f16|bf16");
    assert_usage_error("convert --to onnx a b.pth", "expected one of pth|safetensors");
    assert_usage_error("checkpoint", "expected show FILE, found nothing");
    assert_usage_error("checkpoint list a", "expected show FILE, found list");
    assert_usage_error("checkpoint show", "show: missing FILE");
    assert_usage_error("checkpoint show absent.pth", "absent.pth: No such file or directory");
    assert_usage_error("checkpoint --jsn show a", "unknown option '--jsn'");
    assert_usage_error("convert absent.pth b.pth", "absent.pth: No such file or directory");
    assert_usage_error("convert . no/b.pth", "no/b.pth: cannot be written: No such file");
    assert_usage_error("convert --to pth . b.safetensors",
                       "--to pth contradicts the name b.safetensors, which means safetensors");
    assert_usage_error("convert . b.pth --prefix", "--prefix needs a value");
}
